// Questions, and menus that hang on a button.

import {$, el} from './dom.js';

// Asks; resolves to what was typed (or true where there is no field), or null when it was left.
export function ask({title, text, action, label, value = ''}) {
  $('ask-title').textContent = title;
  $('ask-text').textContent = text;
  $('ask-yes').textContent = action;
  $('ask-field').hidden = !label;
  $('ask-label').textContent = label ?? '';
  $('ask-input').value = value;
  const dialog = $('ask');
  return new Promise((resolve) => {
    let answer = null;
    const accept = () => {
      answer = label ? $('ask-input').value : true;
      dialog.close();
    };
    const onEnter = (event) => {
      if (event.key !== 'Enter' || event.isComposing) return;
      event.preventDefault();
      accept();
    };
    $('ask-yes').onclick = accept;
    $('ask-no').onclick = () => dialog.close();
    $('ask-input').onkeydown = onEnter;
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    if (label) $('ask-input').select();
    else $('ask-yes').focus();
  });
}

// A menu below `anchor`: entries are {text, note, run}. It closes by Escape, by a click elsewhere,
// or when an entry is taken, and gives the focus back.
export function openMenu(anchor, name, entries) {
  const menu = el('div', {class: 'menu', role: 'menu', 'aria-label': name, popover: 'auto'},
      ...entries.map(({text, note, run}) => el('button', {
        type: 'button',
        role: 'menuitem',
        tabIndex: -1,
        onclick: () => {
          menu.hidePopover();
          run();
        },
      }, text, note && el('span', {class: 'note'}, note))));
  menu.addEventListener('keydown', (event) => {
    const items = [...menu.children];
    const at = items.indexOf(document.activeElement);
    const to = {ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1};
    if (event.key === 'Tab') menu.hidePopover();
    if (!(event.key in to)) return;
    event.preventDefault();
    items[to[event.key] % items.length].focus();
  });
  menu.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    anchor.setAttribute('aria-expanded', 'false');
    if (menu.contains(document.activeElement) || document.activeElement === document.body) {
      anchor.focus();
    }
    menu.remove();
  });
  document.body.append(menu);
  anchor.setAttribute('aria-expanded', 'true');
  menu.showPopover();
  const at = anchor.getBoundingClientRect();
  const own = menu.getBoundingClientRect();
  const below = at.bottom + 4 + own.height <= innerHeight;
  menu.style.top = `${below ? at.bottom + 4 : Math.max(at.top - 4 - own.height, 4)}px`;
  menu.style.left = `${Math.max(Math.min(at.left, innerWidth - own.width - 8), 8)}px`;
  menu.firstChild.focus();
}
