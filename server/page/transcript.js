// The text of a session, with a mark wherever a turn ended: where a checkpoint is kept, the mark is
// a button, at which one forks or rewinds.

import {openMenu} from './dialogs.js';
import {count, el, fermata, plural} from './dom.js';

export class Transcript {
  // `fork` and `rewind` are called with a position.
  constructor(root, {fork, rewind}) {
    this.root = root;
    this.fork = fork;
    this.rewind = rewind;
    this.end = null;  // Where the running turn's text goes.
    this.waiting = '';
  }

  // What is shown where no session is open.
  welcome(...paragraphs) {
    this.root.replaceChildren(el('div', {class: 'welcome'},
        ...paragraphs.map((text, i) => el('p', {class: i === 0 ? 'lead' : ''}, text))));
  }

  // The text of a session that is gone; `again` begins another with it.
  lost(turns, again) {
    const button = el('button', {type: 'button', onclick: again}, 'Begin anew with this text');
    this.root.replaceChildren(
        el('p', {class: 'note'},
            'The session is gone from the server. This browser has kept its text:'),
        ...turns.flatMap((turn) => said(turn.prompt, turn.answer, turn.chat)),
        el('p', {class: 'note'}, button));
  }

  // `turns` and `running` as the store keeps them; `checkpoints` are positions.
  show(session, {turns, running}, checkpoints) {
    const kept = new Set(checkpoints);
    const parts = [];
    let at = 0;
    if (kept.has(0) && session.position > 0) parts.push(this.mark(0, session, kept));
    for (const turn of turns) {
      if (turn.from !== at) parts.push(...this.gap(at, turn.from, session, kept));
      parts.push(...said(turn.prompt, turn.answer, turn.chat));
      if (turn.cut) parts.push(el('span', {class: 'gap'}, 'The last of it did not arrive.'));
      parts.push(this.mark(turn.to, session, kept));
      at = turn.to;
    }
    if (at !== session.position && !running) {
      parts.push(...this.gap(at, session.position, session, kept));
    }
    if (running) parts.push(...said(running.prompt, running.answer, running.chat));
    if (parts.length === 0) {
      parts.push(el('p', {class: 'note'}, 'Nothing was written here yet.'));
    }
    this.root.replaceChildren(...parts);
    this.toEnd();
  }

  // Where the server holds more than this browser has the text of.
  gap(from, to, session, kept) {
    const places = [...kept].filter((position) => position > from && position < to);
    return [
      el('span', {class: 'gap'}, from === 0
          ? `The text was not kept in this browser: ${plural(to, 'token')} are in the state.`
          : `Tokens ${count(from)} to ${count(to)} were written elsewhere: the state has them, ` +
            'this browser has not.'),
      ...places.map((position) => this.mark(position, session, kept)),
      this.mark(to, session, kept),
    ];
  }

  mark(position, session, kept) {
    const now = position === session.position;
    if (!now && !kept.has(position)) {
      return el('span', {class: 'mark', title: 'Its checkpoint is not kept any more'},
          count(position));
    }
    return el('button', {
      type: 'button',
      class: 'mark kept',
      'aria-haspopup': 'menu',
      'aria-expanded': 'false',
      'aria-label': `Position ${count(position)}: fork${now ? '' : ' or rewind'}`,
      onclick: (event) => openMenu(event.currentTarget, `Position ${count(position)}`, [
        {text: 'Fork from here', note: 'a new session', run: () => this.fork(position)},
        ...(now ? [] : [{
          text: 'Rewind to here',
          note: 'what follows goes',
          run: () => this.rewind(position),
        }]),
      ]),
    }, fermata(), count(position));
  }

  // A turn begins: its prompt is shown, and what `append` brings after it.
  begin(prompt, chat) {
    this.root.querySelector('.welcome, :scope > .note')?.remove();
    const parts = said(prompt, '', chat);
    this.end = parts.at(-1);
    this.end.classList.add('running');
    this.root.setAttribute('aria-busy', 'true');
    this.root.append(...parts);
    this.toEnd();
  }

  // As often as the screen shows something new, however fast the tokens come.
  append(text) {
    if (this.waiting === '') requestAnimationFrame(() => this.flush());
    this.waiting += text;
  }

  flush() {
    if (!this.end || this.waiting === '') return;
    const {scrollTop, scrollHeight, clientHeight} = this.scroller;
    const follows = scrollTop + clientHeight > scrollHeight - 40;
    this.end.firstChild.appendData(this.waiting);
    this.waiting = '';
    if (follows) this.toEnd();
  }

  // Where the window is narrow, all of the page scrolls.
  get scroller() {
    return getComputedStyle(this.root).overflowY === 'auto' ? this.root : document.scrollingElement;
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  finish() {
    this.flush();
    this.end?.classList.remove('running');
    this.end = null;
    this.waiting = '';
    this.root.removeAttribute('aria-busy');
  }
}

// The last of these takes the answer.
function said(prompt, answer, chat) {
  if (!chat) {
    const space = /^\s*/.exec(prompt)[0];
    return [space, el('span', {class: 'typed'}, prompt.slice(space.length)),
      el('span', {class: 'written'}, answer)];
  }
  return [
    el('span', {class: 'who'}, 'You'), el('span', {class: 'typed block'}, prompt),
    el('span', {class: 'who'}, 'Model'), el('span', {class: 'written block'}, answer),
  ];
}
