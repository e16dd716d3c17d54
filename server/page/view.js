// Draws what is known: the tree, the open session's head and text.

import {$, bytes, count, plural, setText} from './dom.js';
import {Pair, comparison, scaleFor} from './memory.js';
import {nameOf} from './sessions.js';
import {chats} from './settings.js';
import {lostText, textOf} from './store.js';
import {Transcript} from './transcript.js';
import {Tree} from './tree.js';

export class View {
  // `actions` are open(id), remove(id), fork(position) and rewind(position).
  constructor(sessions, actions) {
    this.sessions = sessions;
    this.model = null;
    this.runs = false;  // Whether a turn does.
    this.scale = 1;
    this.bars = new Pair($('bars'), true);
    this.tree = new Tree($('tree'), actions);
    this.transcript = new Transcript($('transcript'), actions);
  }

  draw() {
    const list = this.sessions.list();
    const largest = Math.max(0, ...list.map((session) => session.kvBytes));
    this.scale = scaleFor(this.model?.stateBytes ?? 1, largest);
    this.tree.show(list, this.sessions.openId, this.scale, nameOf);
    $('none').hidden = list.length > 0;
    $('more').hidden = !this.sessions.more;
    this.drawHead();
  }

  drawHead() {
    const session = this.sessions.open;
    $('actions').hidden = !session;
    $('memory').hidden = !session;
    $('naming').hidden = session !== null;
    setText($('name'), session ? nameOf(session) : 'New session');
    document.title = session ? `${nameOf(session).slice(0, 40)} · Fermata` : 'Fermata';
    for (const id of ['fork', 'undo', 'rename', 'delete', 'new', 'more']) $(id).disabled = this.runs;
    $('send').hidden = this.runs;
    $('stop').hidden = !this.runs;
    if (session) this.drawFigures(session);
    else setText($('facts'), '');
    const empty = !session || session.empty;
    $('prompt').placeholder =
        empty ? 'Once upon a time, there was a little fox who' : 'What comes next?';
    setText($('send'), empty || chats() ? 'Send' : 'Continue');
  }

  drawFigures(session) {
    const {id, position, turns, checkpoints, parent, parentPosition, pinned} = session;
    if (!this.sessions.checkpoints.some((place) => place < position)) $('undo').disabled = true;
    setText($('facts'), [
      id, `position ${count(position)}`, plural(turns, 'turn'), plural(checkpoints, 'checkpoint'),
      ...(parent ? [`forked at ${count(parentPosition)}`] : []),
      ...(pinned ? ['pinned as a template'] : []),
    ].join(' · '));
    this.bars.show(session.stateBytes, session.kvBytes, this.scale);
    setText($('compare'), comparison(session, this.model));
  }

  drawText() {
    const session = this.sessions.open;
    if (session) {
      this.transcript.show(session, textOf(session), this.sessions.checkpoints);
      return;
    }
    const lost = lostText(this.sessions.lostId);
    if (lost.length > 0) {
      this.transcript.lost(lost, () => this.beginWith(lost));
      return;
    }
    if (!this.model) return;
    this.transcript.welcome(
        `A conversation here is one state of ${bytes(this.model.stateBytes)}: at its tenth ` +
        'token, and at its ten millionth.',
        'Type how a text begins, and the model goes on with it. Every turn leaves a mark, at ' +
        'which the text can be forked, or taken back to.',
        `A softmax transformer of this shape would keep ${bytes(this.model.kvPerToken)} for each ` +
        'token. The hatched bars show what that comes to.')
  }

  beginWith(turns) {
    $('prompt').value = turns.map((turn) => turn.prompt + turn.answer).join('') + $('prompt').value;
    this.sessions.lostId = null;
    this.drawText();
    $('prompt').focus();
  }

  // While a turn runs: the cache's bars grow with each token, before the server's figures come.
  grow(session, tokens) {
    if (!this.runs) return;
    const position = session.position + tokens;
    const kvBytes = position * this.model.kvPerToken;
    this.sessions.advance(session.id, position, kvBytes);
    if (kvBytes > this.scale) this.draw();
    this.tree.update(this.sessions.open, this.scale);
    this.drawFigures(this.sessions.open);
  }
}
