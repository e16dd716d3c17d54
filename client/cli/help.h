#ifndef FERMATA_CLIENT_CLI_HELP_H_
#define FERMATA_CLIENT_CLI_HELP_H_

// What the help of the command and its subcommands says beside the list of flags.
namespace fermata::cli {

inline constexpr char kSummary[] =
    "Fermata holds conversations with a language model of fixed-size state: a session can rest, "
    "and\n"
    "go on exactly where it stopped. This command talks to a running fermata-server.";

inline constexpr char kFooter[] = R"(
Examples:
  fermata generate "Once upon a time" --session story --create
  fermata generate --session story            goes on with the same story
  fermata sessions show story
  fermata help generate

Exit codes: 0 done, 1 the request failed, 2 the command line is wrong, 130 interrupted.

--json prints messages of proto/fermata/v1 in the JSON mapping of Protocol Buffers, field names as
in the .proto files: 64-bit numbers are strings, durations are like "1.5s". A request that fails
prints {"error": {"code", "message", "reason", "metadata", "retry_after_seconds"}}.
)";

inline constexpr char kGenerateFooter[] = R"(
The text goes to standard output as it comes, and nothing else does. The prompt is PROMPT, a --file,
--token-ids, or standard input; a newline at the very end of a file or of standard input is dropped.
With --session and no prompt, the turn goes on from the session's last token.

Ctrl-C ends the turn: the session keeps what was generated until then. With --on-disconnect finish it
ends only this command: the turn runs on, and `fermata attach` takes it up.

Examples:
  fermata generate "Once upon a time" -n 200 --temperature 0.8 --stats
  echo "The little dragon" | fermata generate
  fermata generate "Tom had a cat." --session tom --create    first turn
  fermata generate " One day" --session tom                   next turn, same story
  fermata generate --session tom --expected-position 140      only if nobody was faster
  fermata generate "One day" --seed 7 --stop "." --json | jq -r '.chunk.text // empty'
)";

inline constexpr char kChatFooter[] = R"(
Each line is one turn on a session, which is made when it is missing; an empty line lets the model
go on. Without --session the server names the session, and the name is shown. Lines that begin with
a slash are commands: /state, /help, /quit. Ctrl-C ends a running turn, and at the prompt the chat.

Examples:
  fermata chat --session tom -n 60 --temperature 0.8
  fermata chat --template $'User: {}\n\nAssistant:' --stop $'\n\nUser:'
)";

inline constexpr char kScoreFooter[] = R"(
Prints the number of tokens, the sum of log-probabilities (natural logarithms), and bits per byte.
With no context the first token has no log-probability, and its bytes are not counted.

With --separator TEXT, the records between lines that hold only TEXT are scored each from a fresh
state: TEXT, as a special token, is consumed first, then the record and one closing TEXT are scored.
Bits per byte are then per byte of the whole file, separator lines included.

Examples:
  fermata score story.txt
  fermata score --text " a time" --context "Once upon" --tokens
  fermata score --separator '<|endoftext|>' tinystories-valid.txt
)";

inline constexpr char kModelsFooter[] = R"(
Without a subcommand, tells about the model that the server serves.

Examples:
  fermata models
  fermata models inspect models/tinystories-linear
  fermata models verify rwkv7-g1-0.1b.gguf
  fermata models make /tmp/rwkv7 --size 0.4b
)";

inline constexpr char kVerifyModelFooter[] = R"(
Loading checks names, shapes, types and that all weights are finite numbers. Then the recurrent,
chunkwise and parallel forms are compared on random tokens, and the tokenizer on texts of many
scripts. Exit code 1 when something is wrong.
)";

inline constexpr char kMakeModelFooter[] = R"(
Writes what fermata-server --model_dir loads: config.json as the family's authors have it, weights
drawn at random so that activations and logits stay in a sane range, and a vocabulary of every byte
and made-up words. A model of a vocabulary of 256 is one of bytes, and needs none. Benchmarks need no
more; the text is gibberish. The same options give the same files. The directory must be empty.

Sizes are RWKV-7's published ones, with a vocabulary of 65,536: 0.1b has 12 layers of 768, 0.4b 24 of
1,024, 1.5b 24 of 2,048. The other families take the same, and mamba2 twice the layers, having no
feed-forward halves. --layers, --hidden-size and --vocab-size change what the size says.

Examples:
  fermata models make /tmp/rwkv7-0.1b
  fermata models make /tmp/retnet --family retnet --size 0.4b
  fermata models make /tmp/tiny --family gla --layers 2 --hidden-size 64 --vocab-size 256
)";

inline constexpr char kBenchFooter[] = R"(
Without --rate or --trace the load is a closed loop. In an open loop, requests come when they come,
and latencies count from that time, not from when this command got round to sending: its own delay is
told beside them, with its share of the processors, to see that it was not the bottleneck. Where all
--sessions are in a turn, requests wait for one, and the wait counts too.

A --trace is Azure's (TIMESTAMP,ContextTokens,GeneratedTokens) or Mooncake's (timestamp, input_length,
output_length, hash_ids: equal ids give equal blocks of 512 tokens). A file of --prompts has a text a
line, or a JSON object a line with "prompt", "turns", "messages" or "instruction"; the turns of a
dialogue follow one another in a session.

Latencies are those of requests that completed; tokens that come together are 0 apart. Throughput
counts what came between the warm-up and the end of sending; requests that come in the warm-up are
not in the report. Ctrl-C ends the run and reports. Exit code 1 when no request completed, or the
server was gone for 10 s.

Examples:
  fermata bench -c 64 --prompt-tokens 128 -n 128 --duration 70s --warmup 10s
  fermata bench --rate 5 --sessions 10000 --session-zipf 1 --prompt-tokens 16:64 --requests 2000
  fermata bench --trace azure_llm_2023_conv.csv --trace-speed 0.2 --duration 5m --slo-ttft 2s
  fermata bench --trace azure_llm_2023_conv.csv --sessions 10000 --open-sessions
  fermata bench -c 8 --prompts question.jsonl --json | jq .latency.inter_token.p99
)";

inline constexpr char kTokenizeFooter[] = R"(
Examples:
  fermata tokenize "Once upon a time"
  fermata tokenize --parse-special "<|endoftext|>"
)";

inline constexpr char kDetokenizeFooter[] = R"(
Example:
  fermata detokenize 291 403,318
)";

inline constexpr char kSessionsFooter[] = R"(
Examples:
  fermata sessions list --label user=anna
  fermata sessions create tom --label user=anna --ttl 24h
  fermata sessions update tom --ttl 0
  fermata sessions delete tom
  fermata sessions list --json | jq -r .id
)";

inline constexpr char kForkFooter[] = R"(
The two share the state until one of them changes, so a fork costs next to nothing. Without a place it
goes on from where the session stands.

Examples:
  fermata sessions fork tom tom-2
  fermata sessions fork tom --before-last-turn
  fermata sessions pin tom; fermata generate "Hi" --session anna --fork-from tom
)";

inline constexpr char kRewindFooter[] = R"(
Without a place, before the last turn. Checkpoints are kept by sessions that were told to, with
--checkpoints, and by servers with --session_checkpoints.

Examples:
  fermata sessions create tom --checkpoints 8
  fermata sessions checkpoints tom
  fermata sessions rewind tom
  fermata sessions rewind tom --turns 3
)";

inline constexpr char kExportFooter[] = R"(
A snapshot is the whole session, in one file that this model's servers can go on from. It is checked
whole before anything changes.

Examples:
  fermata sessions export tom -o tom.snap
  fermata sessions import tom.snap --id tom-2
  fermata sessions export tom | fermata sessions import --server other:7411
)";

inline constexpr char kAttachFooter[] = R"(
Writes the answer from its first token on, or from --from on, and goes on with it to its end. It is
there while the turn runs, and for a while after (the server's --answer_retention).

Examples:
  fermata generate "Once" -n 5000 --request-id r1 --on-disconnect finish
  fermata attach r1
)";

inline constexpr char kFsckFooter[] = R"(
Reads every file and compares it with its checksums, and makes the index anew. A server must not have
the directory open. Exit code 1 when something is damaged.

Example:
  fermata fsck /var/lib/fermata
)";

inline constexpr char kHealthFooter[] = R"(
Exit code 0 when the server is serving, else 1.

Example:
  fermata health --wait --deadline 30s
)";

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_HELP_H_
