// The page: what buttons and keys do, and how it starts.

import {api} from './api.js';
import {Conversation} from './conversation.js';
import {ask} from './dialogs.js';
import {$, announce, bytes, count, roughly, setText} from './dom.js';
import {Sessions, nameOf} from './sessions.js';
import {setUpSettings} from './settings.js';
import {Stats} from './stats.js';
import {forgetOldTexts, onTextChanged} from './store.js';
import {attempt, clearTrouble, setUpTrouble, showTrouble} from './trouble.js';
import {View} from './view.js';

// Milliseconds between two looks at the sessions, and at a server that is loading its model.
const kRefreshEvery = 5000;
const kReadyEvery = 500;

const sessions = new Sessions(() => view.draw());
const view = new View(sessions, {
  open: (id) => unlessRunning(() => open(id)),
  remove: (id) => unlessRunning(() => remove(id)),
  fork: (position) => unlessRunning(() => fork(position)),
  rewind: (position) => unlessRunning(() => rewind(position)),
});
const conversation = new Conversation(sessions, view);

function unlessRunning(what) {
  if (conversation.runs) return;
  conversation.beside(() => attempt(what, () => unlessRunning(what)));
}

const ifOpen = (what) => unlessRunning(() => sessions.open && what());

async function open(id) {
  try {
    await sessions.select(id);
    view.drawText();
    if (id !== null) await conversation.finishOld();
  } catch (error) {
    if (error.status === 404) sessions.lose();
    throw error;
  } finally {
    history.replaceState(null, '', id === null ? location.pathname : `#${encodeURIComponent(id)}`);
    view.drawText();
    unfold(false);
  }
  if (id !== null) announce(`${nameOf(sessions.open)}, position ${count(sessions.open.position)}`);
}

async function fork(position) {
  const made = await sessions.fork(position);
  await open(made.id);
  $('prompt').focus();
  announce(`Forked at position ${count(made.position)}`);
}

async function rewind(position) {
  const session = await sessions.rewind(position);
  view.drawText();
  $('prompt').focus();
  announce(`Rewound to position ${count(session.position)}`);
}

async function rename() {
  const title = await ask({
    title: 'Rename',
    text: 'The title is a label of the session: whoever may list sessions sees it.',
    action: 'Rename',
    label: 'Title',
    value: nameOf(sessions.open),
  });
  if (title !== null) await sessions.rename(title.trim());
}

async function remove(id) {
  const sure = await ask({
    title: 'Delete this session?',
    text: `“${nameOf(sessions.known.get(id))}”, its checkpoints and its text go for good. ` +
        'Its forks stay.',
    action: 'Delete',
  });
  if (!sure) return;
  const wasOpen = id === sessions.openId;
  await sessions.remove(id);
  announce('Deleted');
  if (wasOpen) await open(null);
}

function newSession() {
  unlessRunning(async () => {
    await open(null);
    $('prompt').focus();
  });
}

// Opens the session above or below.
function step(by) {
  const ids = view.tree.ids();
  const at = ids.indexOf(sessions.openId);
  const to = at < 0 ? 0 : at + by;
  if (to >= 0 && to < ids.length) unlessRunning(() => open(ids[to]));
}

// Where the window is narrow, the list of sessions folds away.
function unfold(unfolded) {
  $('side').classList.toggle('unfolded', unfolded);
  $('unfold').setAttribute('aria-expanded', String(unfolded));
}

const kShortcuts = {
  KeyN: newSession,
  KeyF: () => ifOpen(() => fork()),
  KeyZ: () => ifOpen(() => rewind()),
  KeyK: () => $('help').showModal(),
  ArrowUp: () => step(-1),
  ArrowDown: () => step(1),
};

function setUpKeys() {
  document.addEventListener('keydown', (event) => {
    if (document.querySelector('dialog[open]') || event.isComposing) return;
    const shortcut = event.altKey && !event.ctrlKey && !event.metaKey && kShortcuts[event.code];
    if (event.key === 'Escape') conversation.stop();
    if (!shortcut) return;
    event.preventDefault();
    shortcut();
  });
  $('prompt').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.altKey || event.isComposing) return;
    event.preventDefault();
    conversation.send();
  });
}

function setUpButtons() {
  $('send').onclick = () => conversation.send();
  $('stop').onclick = () => {
    conversation.stop();
    $('prompt').focus();
  };
  $('new').onclick = newSession;
  $('fork').onclick = () => ifOpen(() => fork());
  $('undo').onclick = () => ifOpen(() => rewind());
  $('rename').onclick = () => ifOpen(rename);
  $('delete').onclick = () => ifOpen(() => remove(sessions.openId));
  $('more').onclick = () => unlessRunning(() => sessions.showMore());
  $('keys').onclick = () => $('help').showModal();
  $('help-close').onclick = () => $('help').close();
  $('unfold').onclick = () => unfold(!$('side').classList.contains('unfolded'));
}

async function refresh() {
  const id = sessions.openId;
  await sessions.refresh();
  if (sessions.openId !== id) view.drawText();
}

// The model, as soon as the server has loaded it.
async function loadedModel() {
  for (;;) {
    try {
      const model = await api.model();
      clearTrouble();
      return model;
    } catch (error) {
      if (error.code !== 'LOADING') throw error;
      showTrouble(error);
    }
    await new Promise((resolve) => setTimeout(resolve, kReadyEvery));
  }
}

async function start() {
  view.model = await loadedModel();
  const {name, parameters, stateBytes} = view.model;
  setText($('model'),
      `${name} · ${roughly(parameters)} parameters · state of ${bytes(stateBytes)}`);
  await sessions.refresh();
  const id = decodeURIComponent(location.hash.slice(1));
  await open(id === '' ? null : id);
}

setUpKeys();
setUpButtons();
setUpTrouble();
setUpSettings(() => view.drawHead());
forgetOldTexts();
onTextChanged((id) => {
  if (id === sessions.openId) unlessRunning(() => open(id));
});
new Stats(() => unlessRunning(start));
unlessRunning(start);
setInterval(() => {
  if (document.hidden || conversation.busy || !view.model) return;
  conversation.beside(() => refresh().catch(() => {}));
}, kRefreshEvery);
$('prompt').focus();
