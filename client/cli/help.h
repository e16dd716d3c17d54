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

Ctrl-C ends the turn: the session keeps what was generated until then.

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
)";

inline constexpr char kVerifyModelFooter[] = R"(
Loading checks names, shapes, types and that all weights are finite numbers. Then the recurrent,
chunkwise and parallel forms are compared on random tokens, and the tokenizer on texts of many
scripts. Exit code 1 when something is wrong.
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

inline constexpr char kHealthFooter[] = R"(
Exit code 0 when the server is serving, else 1.

Example:
  fermata health --wait --deadline 30s
)";

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_HELP_H_
