// Elements, and figures as people read them. Text becomes text nodes: nothing here parses HTML.

export const $ = (id) => document.getElementById(id);

// An element with properties, attributes (`class`, `role` and those with a dash), handlers
// (`onclick`) and children: nodes, strings, or nothing.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (/^(class|role)$|-/.test(name)) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child || child === ''));
  return node;
}

// The sign that stands over a note to be held: here, over a place that is kept.
export function fermata() {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('viewBox', '0 0 24 14');
  svg.setAttribute('class', 'fermata');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(space, 'path');
  path.setAttribute('d', 'M1 13a11 12 0 0 1 22 0h-1a10 9 0 0 0-20 0z' +
      'M9.6 10.8a2.4 2.4 0 0 1 4.8 0 2.4 2.4 0 0 1-4.8 0z');
  svg.append(path);
  return svg;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const short = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});

export const count = (n) => whole.format(n);
export const figure = (n) => (Math.abs(n) < 1000 ? short.format(n) : whole.format(n));
export const plural = (n, one) => `${count(n)} ${one}${n === 1 ? '' : 's'}`;

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; ++unit) n /= 1024;
  return `${figure(n)} ${units[unit]}`;
}

// The beginning of an id that a server chose; those that people choose are shorter.
export const shortId = (id) => (id.length > 20 ? `${id.slice(0, 12)}…` : id);

// 2,321,216 as "2.32 million".
export function roughly(n) {
  if (n >= 1e9) return `${short.format(n / 1e9)} billion`;
  if (n >= 1e6) return `${short.format(n / 1e6)} million`;
  return whole.format(n);
}

// Speaks to those who do not see the page.
export function announce(text) {
  setText($('spoken'), '');
  setText($('spoken'), text);
}
