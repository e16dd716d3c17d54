// The server's public HTTP API, as far as the page uses it.

// What went wrong: `code` is the server's reason ("SESSION_BUSY"), or NOT_CONNECTED, or
// CONNECTION_LOST inside a stream. `retryAfter` is in seconds, or null where the server named none.
export class ApiError extends Error {
  constructor(message, {status = 0, code = '', metadata = {}, retryAfter = null} = {}) {
    super(message);
    Object.assign(this, {status, code, metadata, retryAfter});
  }
}

function errorOf(body, response) {
  const error = body?.error ?? {};
  const after = Number(response?.headers.get('retry-after') ?? NaN);
  return new ApiError(error.message || `the server answered ${response?.status}`, {
    status: response?.status ?? 0,
    code: error.code ?? '',
    metadata: error.metadata ?? {},
    retryAfter: Number.isFinite(after) ? after : null,
  });
}

async function send(method, path, body, {signal, headers = {}} = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      cache: 'no-store',
      headers: body === undefined ? headers : {'content-type': 'application/json', ...headers},
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('The server can not be reached.', {code: 'NOT_CONNECTED'});
  }
  if (response.ok) return response;
  throw errorOf(await response.json().catch(() => null), response);
}

async function json(method, path, body) {
  const response = await send(method, path, body);
  try {
    return await response.json();
  } catch {
    throw new ApiError('The connection was lost.', {code: 'CONNECTION_LOST'});
  }
}

// The events of a stream, as their parsed JSON, until its [DONE].
export async function* stream(path, body, options) {
  const response = await send('POST', path, body, options);
  const lost = () => new ApiError('The connection was lost.', {code: 'CONNECTION_LOST'});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (options?.signal?.aborted) throw error;
      throw lost();
    }
    if (part.done) throw lost();
    const lines = (rest + part.value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;  // Blank lines, and comments that keep it open.
      const data = line.slice(5).trim();
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw errorOf(event, null);
      yield event;
    }
  }
}

// A session as the page knows it: numbers for JSON's strings of digits, nothing unset.
function sessionOf(json) {
  return {
    id: json.id,
    position: Number(json.position ?? 0),
    empty: json.pending_token === undefined || json.pending_token === null,
    stateBytes: Number(json.state_bytes ?? 0),
    kvBytes: Number(json.kv_equivalent_bytes ?? 0),
    labels: json.labels ?? {},
    born: json.create_time ?? '',
    used: json.update_time ?? '',
    turns: Number(json.turns ?? 0),
    revision: String(json.revision ?? '0'),
    checkpoints: Number(json.checkpoints ?? 0),
    pinned: Boolean(json.pinned),
    parent: json.parent_id ?? '',
    parentPosition: Number(json.parent_position ?? 0),
  };
}

const at = (id, rest = '') => `v1/sessions/${encodeURIComponent(id)}${rest}`;

export const api = {
  async model() {
    const model = await json('GET', 'v1/model');
    return {
      name: model.name,
      family: model.family,
      parameters: Number(model.parameters ?? 0),
      stateBytes: Number(model.state_bytes ?? 0),
      kvPerToken: Number(model.kv_equivalent_bytes_per_token ?? 0),
      breakEven: Number(model.break_even_tokens ?? 0),
      keepsSessions: Boolean(model.fixed_size_state),
    };
  },

  // At most `limit` sessions in the order of their ids, and whether there are more.
  async sessions(limit) {
    const page = await json('GET', `v1/sessions?page_size=${limit}`);
    return {sessions: (page.sessions ?? []).map(sessionOf), more: Boolean(page.next_page_token)};
  },
  session: async (id) => sessionOf(await json('GET', at(id))),
  create: async (body) => sessionOf(await json('POST', 'v1/sessions', body)),
  relabel: async (session, labels) => sessionOf(await json('PATCH', at(session.id), {
    labels: {values: labels}, expected_revision: session.revision})),
  remove: (id) => json('DELETE', at(id)),
  fork: async (id, body) => sessionOf(await json('POST', at(id, '/fork'), body)),
  rewind: async (id, body) => sessionOf(await json('POST', at(id, '/rewind'), body)),
  // Their positions, oldest first.
  async checkpoints(id) {
    const found = (await json('GET', at(id, '/checkpoints'))).checkpoints ?? [];
    return found.map((one) => Number(one.position ?? 0));
  },

  // The samples of /metrics by name and labels, as they are written there.
  async metrics() {
    const text = await (await send('GET', 'metrics')).text();
    const samples = new Map();
    for (const line of text.split('\n')) {
      if (line === '' || line.startsWith('#')) continue;
      const space = line.lastIndexOf(' ');
      samples.set(line.slice(0, space), Number(line.slice(space + 1)));
    }
    return samples;
  },
};
