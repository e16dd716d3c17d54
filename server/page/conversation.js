// Turns on the open session, one at a time, and the text that they leave.

import {$, announce, count} from './dom.js';
import {chats, settings} from './settings.js';
import {keepText, textOf} from './store.js';
import {clearTrouble, showTrouble} from './trouble.js';
import {Turn, requestOf, settled, wholeAnswer} from './turn.js';

// Milliseconds between writes of what a turn has brought, and between two announcements of it.
const kKeepEvery = 500;
const kSpeakEvery = 1000;

export class Conversation {
  constructor(sessions, view) {
    this.sessions = sessions;
    this.view = view;
    this.turn = null;  // That runs.
    this.sending = false;
    this.others = Promise.resolve();  // The last of what is asked for beside turns.
    this.waiting = 0;                 // How many of those have not ended.
  }

  get runs() {
    return this.sending;
  }

  // Whether a turn runs, or something else is under way.
  get busy() {
    return this.sending || this.waiting > 0;
  }

  stop() {
    this.turn?.stop();
  }

  // Runs what else happens to sessions, which must not throw: one thing after another, and nothing
  // while a turn runs. A turn that is asked for meanwhile begins after it.
  async beside(what) {
    this.waiting += 1;
    this.others = this.others.then(() => (this.sending ? null : what()));
    await this.others;
    this.waiting -= 1;
  }

  async send() {
    await this.others;
    const {sessions, view} = this;
    const typed = $('prompt').value;
    const needsText = chats() || !sessions.open || sessions.open.empty;
    if (this.sending || !view.model || (typed === '' && needsText)) return;
    clearTrouble();
    this.show(true);
    try {
      // As it stands now: it may have gone on elsewhere, or not be there any more.
      const session = sessions.open ? await sessions.reload() : await this.begin();
      $('prompt').value = '';
      await this.converse(session, chats() ? typed : spaced(session, typed));
    } catch (error) {
      // It had no effect, and can be sent again as it was.
      $('prompt').value ||= typed;
      if (error.status === 404 && sessions.open) sessions.lose();
      view.drawText();
      showTrouble(error, () => this.send());
    } finally {
      this.turn = null;
      this.show(false);
    }
  }

  async begin() {
    const session = await this.sessions.create($('id').value.trim());
    $('id').value = '';
    history.replaceState(null, '', `#${encodeURIComponent(session.id)}`);
    return session;
  }

  // Throws where the turn had no effect; otherwise shows what was wrong with it.
  async converse(session, prompt) {
    const {view} = this;
    const chat = chats();
    const model = view.model.name;
    const request = requestOf({session, prompt, chat, model, settings: settings()});
    const running = {request, key: newKey(), revision: session.revision,
      from: session.position, prompt, answer: '', chat};
    const turn = new Turn(request, running.key);
    const kept = textOf(session);
    const keep = () => keepText(session, {...kept, running});
    const speech = new Speech();
    const grow = eachFrame(() => view.grow(session, turn.pieces));
    this.turn = turn;
    keep();
    view.draw();
    view.transcript.begin(prompt, chat);
    const keeping = setInterval(keep, kKeepEvery);
    let failure = null;
    try {
      await turn.run((text) => {
        running.answer += text;
        view.transcript.append(text);
        speech.add(text);
        grow();
      });
    } catch (error) {
      failure = error;
    }
    clearInterval(keeping);
    keep();
    view.transcript.finish();
    if (failure?.status) {  // Refused, before it began.
      keepText(session, {...kept, running: null});
      throw failure;
    }
    let changed = false;
    try {
      changed = await this.settle(session, running, failure === null && !turn.stopped);
      if (!changed) $('prompt').value ||= prompt;
      const position = count(this.sessions.open.position);
      announce(`${speech.rest} ${turn.stopped ? 'Stopped' : 'Ended'} at position ${position}`);
    } catch (error) {
      failure ??= error;
    }
    if (failure && !changed && running.answer === '') throw failure;
    if (failure) showTrouble(failure);
  }

  // Notes what a turn left that has ended; `whole`: its stream told the end. Returns whether it had
  // an effect.
  async settle(before, running, whole) {
    const {request, key, revision, from, prompt, chat} = running;
    const session = await settled(before.id, revision);
    const changed = session.revision !== revision && session.position > from;
    const kept = textOf(session);
    if (changed) {
      const answer = whole ? running.answer : await wholeAnswer(request, key);
      kept.turns.push({from, to: session.position, prompt, answer: answer ?? running.answer, chat,
        cut: answer === null});
    }
    keepText(session, {...kept, running: null});
    await this.sessions.reload();
    this.view.drawText();
    return changed;
  }

  // The turn that ran when the page was left, if one did.
  async finishOld() {
    const session = this.sessions.open;
    const {running} = textOf(session);
    if (running) await this.settle(session, running, false);
  }

  show(runs) {
    this.sending = runs;
    this.view.runs = runs;
    this.view.drawHead();
    if (document.activeElement === document.body) $('prompt').focus();
  }
}

// A word that is typed after another is a word of its own.
function spaced(session, typed) {
  const last = textOf(session).turns.at(-1);
  const before = last ? last.prompt + last.answer : '';
  return /\S$/.test(before) && /^[\p{L}\p{N}"“‘(]/u.test(typed) ? ` ${typed}` : typed;
}

// Not randomUUID, which browsers have for pages from https or localhost alone.
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

// Calls `what` once before the screen shows something new, however often it is asked to.
function eachFrame(what) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      what();
    });
  };
}

// Speaks whole sentences as they come, rather than tokens.
class Speech {
  constructor() {
    this.rest = '';  // That was not spoken yet.
    this.last = performance.now();
  }

  add(text) {
    this.rest += text;
    const now = performance.now();
    if (now < this.last + kSpeakEvery) return;
    const end = Math.max(...['. ', '! ', '? ', '\n'].map((mark) => this.rest.lastIndexOf(mark)));
    if (end < 0) return;
    announce(this.rest.slice(0, end + 1));
    this.rest = this.rest.slice(end + 1);
    this.last = now;
  }
}
