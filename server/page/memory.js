// What a session takes, beside what a KV cache would: two bars on one scale.

import {bytes, count, el, figure, setText} from './dom.js';

// Bytes at the right end of all bars: a power of two times the state, with room for the largest, so
// that the state's bar keeps its length as a conversation grows, until the scale doubles.
export function scaleFor(stateBytes, largest) {
  let scale = Math.max(stateBytes, 1) * 16;
  while (scale < largest) scale *= 2;
  return scale;
}

// A pair of bars, the state's and the cache's; `meters` says so to those who do not see them.
export class Pair {
  constructor(parent, meters) {
    this.state = this.row(parent, 'state', meters && 'State');
    this.kv = this.row(parent, 'kv', meters && 'KV equivalent');
  }

  row(parent, kind, name) {
    const fill = el('div', {class: 'fill'});
    const bar = el('div', {class: `bar ${kind}`}, fill);
    const size = el('span', {class: 'size'});
    if (name) {
      bar.setAttribute('role', 'meter');
      bar.setAttribute('aria-label', name);
      bar.setAttribute('aria-valuemin', '0');
    }
    parent.append(name ? el('span', {class: 'what'}, name) : '', bar, size);
    return {fill, bar, size, meter: Boolean(name)};
  }

  show(stateBytes, kvBytes, scale) {
    this.showRow(this.state, stateBytes, scale);
    this.showRow(this.kv, kvBytes, scale);
  }

  showRow({fill, bar, size, meter}, value, scale) {
    fill.hidden = value === 0;
    fill.style.width = `${(100 * Math.min(value / scale, 1)).toFixed(3)}%`;
    setText(size, bytes(value));
    if (!meter) return;
    bar.setAttribute('aria-valuemax', String(scale));
    bar.setAttribute('aria-valuenow', String(value));
    bar.setAttribute('aria-valuetext', bytes(value));
  }
}

// The comparison in words.
export function comparison({position, stateBytes, kvBytes}, model) {
  if (kvBytes >= stateBytes) {
    const times = figure(kvBytes / stateBytes);
    return `The state stays as it is; a KV cache would be ${times} times as large, and grow by ` +
        `${bytes(model.kvPerToken)} with each token.`;
  }
  return 'The state stays as it is; a KV cache would be larger from position ' +
      `${count(model.breakEven)} on.`;
}
