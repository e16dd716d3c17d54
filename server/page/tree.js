// Sessions as a tree: forks hang below what they were forked from.

import {bytes, count, el, setText, shortId} from './dom.js';
import {Pair} from './memory.js';

const time = (session) => Date.parse(session.born) || 0;

// Roots with `children`, newest first; branches in the order of the places that they go off from. A
// fork whose origin is not there, or is a later session of the same id, is a root.
export function forest(sessions) {
  const nodes = new Map(sessions.map((session) => [session.id, {session, children: []}]));
  const roots = [];
  for (const node of nodes.values()) {
    const parent = node.session.parent && nodes.get(node.session.parent);
    const fits = parent && parent !== node && time(parent.session) <= time(node.session);
    (fits ? parent.children : roots).push(node);
  }
  for (const node of nodes.values()) {
    node.children.sort((a, b) => a.session.parentPosition - b.session.parentPosition ||
        time(a.session) - time(b.session));
  }
  roots.sort((a, b) => time(b.session) - time(a.session) || (a.session.id < b.session.id ? -1 : 1));
  return roots;
}

export class Tree {
  // `open` and `remove` are called with a session's id.
  constructor(root, {open, remove}) {
    this.root = root;
    this.open = open;
    this.remove = remove;
    this.items = new Map();  // By id, in the order in which they are shown.
    root.addEventListener('keydown', (event) => this.onKey(event));
    root.addEventListener('click', (event) => {
      const item = event.target.closest('[role=treeitem]');
      if (item) this.open(item.dataset.id);
    });
  }

  ids() {
    return [...this.items.keys()];
  }

  // `nameOf` gives a session's name.
  show(sessions, selected, scale, nameOf) {
    const focused = this.root.contains(document.activeElement) && document.activeElement.dataset.id;
    this.items.clear();
    this.root.replaceChildren(...forest(sessions).map((node) => this.item(node, 1, nameOf)));
    for (const {session} of this.items.values()) this.update(session, scale);
    this.select(selected);
    if (focused) this.items.get(focused)?.node.focus();
  }

  item({session, children}, level, nameOf) {
    const name = nameOf(session);
    const position = el('span', {class: 'position'});
    const pair = el('div', {class: 'pair'});
    const node = el('li', {role: 'treeitem', 'aria-level': level, tabIndex: -1},
        el('div', {class: 'row', title: session.id},
            el('span', {class: 'name'}, name,
                session.pinned && el('span', {class: 'badge'}, 'template')),
            position, pair));
    node.dataset.id = session.id;
    this.items.set(session.id, {session, node, name, position, bars: new Pair(pair, false)});
    if (session.parent && level === 1) {
      node.firstChild.append(el('span', {class: 'origin'},
          `from ${shortId(session.parent)} at ${count(session.parentPosition)}`));
    }
    if (children.length > 0) {
      node.setAttribute('aria-expanded', 'true');
      node.append(el('ul', {role: 'group'},
          ...children.map((child) => this.item(child, level + 1, nameOf))));
    }
    return node;
  }

  // Shows new figures of a session.
  update({id, position, stateBytes, kvBytes}, scale) {
    const item = this.items.get(id);
    if (!item) return;
    setText(item.position, count(position));
    item.bars.show(stateBytes, kvBytes, scale);
    item.node.setAttribute('aria-label', `${item.name}, position ${count(position)}, ` +
        `state ${bytes(stateBytes)}, KV equivalent ${bytes(kvBytes)}`);
  }

  select(id) {
    const first = this.items.has(id) ? id : this.ids()[0];
    for (const [own, {node}] of this.items) {
      node.setAttribute('aria-selected', String(own === id));
      node.tabIndex = own === first ? 0 : -1;
    }
  }

  focus(id) {
    for (const [own, {node}] of this.items) node.tabIndex = own === id ? 0 : -1;
    this.items.get(id)?.node.focus();
  }

  onKey(event) {
    const id = document.activeElement?.dataset.id;
    if (!this.items.has(id) || event.altKey || event.ctrlKey || event.metaKey) return;
    const ids = this.ids();
    const at = ids.indexOf(id);
    const inside = (node) => node?.closest('[role=treeitem]')?.dataset.id;
    const {node} = this.items.get(id);
    const keys = {
      ArrowDown: () => this.focus(ids[Math.min(at + 1, ids.length - 1)]),
      ArrowUp: () => this.focus(ids[Math.max(at - 1, 0)]),
      Home: () => this.focus(ids[0]),
      End: () => this.focus(ids.at(-1)),
      ArrowLeft: () => this.focus(inside(node.parentElement) ?? id),
      ArrowRight: () => this.focus(inside(node.querySelector('[role=treeitem]')) ?? id),
      Enter: () => this.open(id),
      ' ': () => this.open(id),
      Delete: () => this.remove(id),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}
