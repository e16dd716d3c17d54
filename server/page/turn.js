// One turn: a request, its stream, and how it ended, also when the stream did not tell.

import {ApiError, api, stream} from './api.js';

// The body of a request that goes on with a session from where the page knows it to stand.
export function requestOf({session, prompt, chat, model, settings}) {
  return {
    ...(chat ? {messages: [{role: 'user', content: prompt}]} : {prompt}),
    ...settings,
    model,
    session: session.id,
    expected_position: session.position,
    stream: true,
  };
}

export class Turn {
  // The same `key` for the same request is the same turn, of which the server still has the answer.
  constructor(request, key) {
    this.request = request;
    this.key = key;
    this.controller = new AbortController();
    this.stopped = false;
    this.pieces = 0;  // Of text that came: a token each, mostly.
  }

  // Ends it; what was written until then stays.
  stop() {
    this.stopped = true;
    this.controller.abort();
  }

  // Calls `took` with each piece of text. Throws ApiError; a turn that was stopped just ends.
  async run(took) {
    const path = this.request.messages ? 'v1/chat/completions' : 'v1/completions';
    const options = {signal: this.controller.signal, headers: {'idempotency-key': this.key}};
    try {
      for await (const event of stream(path, this.request, options)) {
        const choice = event.choices?.[0];
        const text = choice?.text ?? choice?.delta?.content ?? '';
        if (text === '') continue;
        this.pieces += 1;
        took(text);
      }
    } catch (error) {
      if (!this.stopped) throw error;
    }
  }
}

// The session once a turn has ended that began at `revision`. One that loses its reader stops
// within a step, and commits what it wrote; one that had no effect leaves the revision as it was.
export async function settled(id, revision) {
  for (let wait = 10; ; wait *= 2) {
    const session = await api.session(id);
    if (session.revision !== revision || wait > 2000) return session;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

// All that a turn wrote which is known to have been committed, the end included that its stream did
// not bring. Null where the server has forgotten: then the request is refused, for the session is
// not any more where it was.
export async function wholeAnswer(request, key) {
  let answer = '';
  try {
    await new Turn(request, key).run((text) => { answer += text; });
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
  return answer;
}

// Whether the same request may succeed when it is sent again.
export const mayTryAgain = (error) => error instanceof ApiError &&
    (error.retryAfter !== null || ['NOT_CONNECTED', 'SESSION_BUSY'].includes(error.code));
