// How the model is asked to write.

import {$, plural, setText} from './dom.js';
import {loadSettings, saveSettings} from './store.js';

const kFields = ['temperature', 'top_p', 'max_tokens', 'seed'];
const mode = () => document.querySelector('input[name=mode]:checked').value;

// The values that are valid; others are left to the server's defaults.
export function settings() {
  const chosen = {};
  for (const name of kFields) {
    const field = $(name);
    if (field.value !== '' && field.validity.valid) chosen[name] = field.valueAsNumber;
  }
  return chosen;
}

export const chats = () => mode() === 'chat';

function summarize() {
  const {temperature, top_p, max_tokens, seed} = settings();
  const parts = [chats() ? 'chat' : 'continues the text'];
  if (temperature !== undefined) parts.push(`temperature ${temperature}`);
  if (top_p !== undefined && top_p !== 1) parts.push(`top p ${top_p}`);
  if (max_tokens !== undefined) parts.push(`${plural(max_tokens, 'token')} at most`);
  if (seed !== undefined) parts.push(`seed ${seed}`);
  setText($('summary'), parts.join(' · '));
}

// Shows what was chosen last time, keeps what is chosen now, and calls `changed` on each change.
export function setUpSettings(changed) {
  const kept = loadSettings();
  for (const name of kFields) {
    if (kept[name] !== undefined) $(name).value = kept[name];
  }
  for (const radio of document.querySelectorAll('input[name=mode]')) {
    radio.checked = radio.value === (kept.mode ?? 'text');
  }
  summarize();
  $('settings').addEventListener('input', () => {
    const values = Object.fromEntries(kFields.map((name) => [name, $(name).value]));
    saveSettings({...values, mode: mode()});
    summarize();
    changed();
  });
}
