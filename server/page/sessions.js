// The sessions that the page knows, and which one is open.

import {api} from './api.js';
import {copyText, cutText, dropText, textOf} from './store.js';

const kPage = 200;
// What sessions keep that begin here: rewinding is for them.
const kCheckpoints = 16;

export class Sessions {
  // `changed` is called when there is something new to show.
  constructor(changed) {
    this.changed = changed;
    this.known = new Map();
    this.limit = kPage;
    this.more = false;
    this.openId = null;
    this.lostId = null;     // That was open, and is not on the server any more.
    this.checkpoints = [];  // Positions, of the open session.
  }

  get open() {
    return this.known.get(this.openId) ?? null;
  }

  list() {
    return [...this.known.values()];
  }

  async refresh() {
    const asked = this.openId;
    const {sessions, more} = await api.sessions(this.limit);
    const known = new Map(sessions.map((session) => [session.id, session]));
    // The open session is beyond the end of the list, or not there any more.
    const gone = asked !== null && !known.has(asked) && !await this.find(asked, known);
    // Another one was opened meanwhile.
    if (this.open && this.openId !== asked) known.set(this.openId, this.open);
    this.known = known;
    this.more = more;
    if (gone && this.openId === asked) this.lose();
    this.changed();
  }

  async find(id, known) {
    try {
      known.set(id, await api.session(id));
      return true;
    } catch (error) {
      if (error.status !== 404) throw error;
      return false;
    }
  }

  async showMore() {
    this.limit = Math.min(this.limit + kPage, 1000);
    await this.refresh();
  }

  // Opens a session, or none; throws where it is not there.
  async select(id) {
    this.openId = id;
    this.lostId = null;
    this.checkpoints = [];
    if (id !== null) await this.reload();
    this.changed();
  }

  // Asks for the open session anew.
  async reload() {
    const id = this.openId;
    const [session, checkpoints] = await Promise.all([api.session(id), api.checkpoints(id)]);
    this.known.set(id, session);
    if (id === this.openId) this.checkpoints = checkpoints;
    this.changed();
    return session;
  }

  // Figures of a running turn: what is known before the server says it.
  advance(id, position, kvBytes) {
    const session = this.known.get(id);
    if (session) this.known.set(id, {...session, position, kvBytes});
  }

  async create(id) {
    const session = await api.create({id, max_checkpoints: kCheckpoints});
    this.known.set(session.id, session);
    this.openId = session.id;
    this.lostId = null;
    this.checkpoints = [];
    return session;
  }

  // Forks at a position, or where the session stands.
  async fork(position) {
    const from = this.open;
    const here = position === undefined || position === from.position;
    const fork = await api.fork(from.id, here ? {} : {from: {position}});
    copyText(from, fork);
    this.known.set(fork.id, fork);
    return fork;
  }

  // Rewinds to a position, or to before the last turn.
  async rewind(position) {
    const to = position === undefined ? {before_last_turn: true} : {position};
    const session = await api.rewind(this.openId, {to});
    cutText(session, session.position);
    await this.reload();
    return session;
  }

  async rename(title) {
    const labels = {...this.open.labels};
    if (title === '') delete labels.title;
    else labels.title = title;
    const session = await api.relabel(this.open, labels);
    this.known.set(session.id, session);
    this.changed();
  }

  async remove(id) {
    await api.remove(id);
    dropText(id);
    this.known.delete(id);
    if (this.openId === id) this.openId = null;
    this.changed();
  }

  // The open session turned out not to be there any more: its text stays.
  lose() {
    this.lostId = this.openId;
    this.known.delete(this.openId);
    this.openId = null;
    this.changed();
  }
}

// What a session is called: its title, or how its own text begins, or its id.
export function nameOf(session) {
  if (session.labels.title) return session.labels.title;
  const {turns, running} = textOf(session);
  const own = turns.filter((turn) => turn.to > (session.parent ? session.parentPosition : 0));
  const text = [...own, ...(running ? [running] : [])]
      .map((turn) => turn.prompt + turn.answer).join('').trim().replace(/\s+/g, ' ');
  if (text !== '') return [...text].slice(0, 80).join('');
  return session.parent ? `Fork at ${session.parentPosition}` : session.id;
}
