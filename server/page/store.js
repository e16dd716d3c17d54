// The text of conversations. The server keeps states, not text, so this browser does: by session,
// one entry a turn with the positions between which it lies. Rewinding cuts the entries, forking
// copies them. Where storage is refused (a full quota, say) text lives as long as the page.

const kPrefix = 'fermata.text.';
const kSettings = 'fermata.settings';
const kForgetAfter = 90 * 24 * 3600 * 1000;

const fallback = new Map();

function read(key) {
  try {
    return JSON.parse(fallback.get(key) ?? localStorage.getItem(key));
  } catch {
    return null;
  }
}

function write(key, value) {
  const text = JSON.stringify(value);
  try {
    localStorage.setItem(key, text);
    fallback.delete(key);
  } catch {
    fallback.set(key, text);
  }
}

function erase(key) {
  fallback.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    // Then there is nothing to remove.
  }
}

// What is kept of a session: {born, turns: [{from, to, prompt, answer, chat, cut}], running}.
// `cut`: the last of the answer is not known. `running` is a turn whose end this browser has not
// seen. An older session of the same id is another one.
export function textOf(session) {
  const kept = read(kPrefix + session.id);
  if (!kept || kept.born !== session.born || !Array.isArray(kept.turns)) {
    return {born: session.born, turns: [], running: null};
  }
  return kept;
}

export function keepText(session, kept) {
  write(kPrefix + session.id, {...kept, born: session.born, seen: Date.now()});
}

// The turns up to a position.
export function cutText(session, position) {
  const kept = textOf(session);
  keepText(session, {turns: kept.turns.filter((turn) => turn.to <= position), running: null});
}

export function copyText(from, to) {
  const turns = textOf(from).turns.filter((turn) => turn.to <= to.position);
  keepText(to, {turns, running: null});
}

// The text of a session that the server has not any more.
export function lostText(id) {
  const kept = read(kPrefix + id);
  return [...(kept?.turns ?? []), ...(kept?.running ? [kept.running] : [])];
}

export function dropText(id) {
  erase(kPrefix + id);
}

// Has `changed` called with a session's id when another tab writes its text.
export function onTextChanged(changed) {
  addEventListener('storage', (event) => {
    if (event.key?.startsWith(kPrefix)) changed(event.key.slice(kPrefix.length));
  });
}

// Texts of sessions that nobody has gone on with for long.
export function forgetOldTexts() {
  const old = Date.now() - kForgetAfter;
  let keys = [];
  try {
    keys = Object.keys(localStorage).filter((key) => key.startsWith(kPrefix));
  } catch {
    return;
  }
  for (const key of keys) {
    if (!((read(key)?.seen ?? 0) > old)) erase(key);
  }
}

export const loadSettings = () => read(kSettings) ?? {};
export const saveSettings = (settings) => write(kSettings, settings);
