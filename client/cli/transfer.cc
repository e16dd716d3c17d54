#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"

namespace fermata::cli {
namespace {

std::string Kilobytes(int64_t bytes) { return absl::StrCat(Grouped(bytes / 1000), " kB"); }

// A file that has its name only once it is whole.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path)
      : path_(path), unfinished_(path + ".part"), file_(unfinished_, std::ios::binary) {}
  ~OutputFile() {
    if (!finished_) std::remove(unfinished_.c_str());
  }

  std::ostream& stream() { return file_; }
  absl::Status Finish() {
    file_.close();
    finished_ = !file_.fail() && std::rename(unfinished_.c_str(), path_.c_str()) == 0;
    return finished_ ? absl::OkStatus() : absl::UnknownError(absl::StrCat("can not write ", path_));
  }

 private:
  const std::string path_;
  const std::string unfinished_;
  std::ofstream file_;
  bool finished_ = false;
};

absl::Status Export(const CommonOptions& common, const v1::ExportSessionRequest& request,
                    std::ostream& out, const Io& io) {
  Progress progress(io.err, io.err_is_terminal);
  int64_t written = 0;
  return client::Client(OptionsOf(common))
      .ExportSession(request, [&](std::string_view piece, int64_t total) -> absl::Status {
        out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
        if (!out.flush()) return absl::UnknownError("can not write the snapshot");
        written += static_cast<int64_t>(piece.size());
        progress.Show(static_cast<double>(written) / static_cast<double>(total),
                      Kilobytes(written));
        return absl::OkStatus();
      });
}

}  // namespace

int RunExportSession(const CommonOptions& common, const ExportSessionCommand& command,
                     const Io& io) {
  if (command.output == "-") {
    if (io.out_is_terminal) {
      io.err << "fermata: a snapshot is not for a terminal: give -o FILE, or a pipe\n";
      return kExitUsage;
    }
    const absl::Status status = Export(common, command.request, io.out, io);
    return status.ok() ? kExitOk : Fail(common, status, io);
  }
  OutputFile file(command.output);
  absl::Status status = file.stream()
                            ? Export(common, command.request, file.stream(), io)
                            : absl::NotFoundError(absl::StrCat("can not write ", command.output));
  if (status.ok()) status = file.Finish();
  return status.ok() ? kExitOk : Fail(common, status, io);
}

int RunImportSession(const CommonOptions& common, const ImportSessionCommand& command,
                     const Io& io) {
  if (command.input == "-" && io.in_is_terminal) {
    io.err << "fermata: a snapshot is read from a file, or a pipe\n";
    return kExitUsage;
  }
  const auto snapshot = ReadText({.argument = std::nullopt, .file = command.input}, io.in);
  if (!snapshot.ok()) return Fail(common, snapshot.status(), io);
  absl::StatusOr<v1::Session> session;
  {
    const std::string& bytes = **snapshot;
    Progress progress(io.err, io.err_is_terminal);
    session =
        client::Client(OptionsOf(common)).ImportSession(command.options, bytes, [&](int64_t sent) {
          progress.Show(static_cast<double>(sent) / static_cast<double>(bytes.size()),
                        Kilobytes(sent));
        });
  }
  if (!session.ok()) return Fail(common, session.status(), io);
  io.out << (common.json ? ToJson(*session) + "\n" : FormatSession(*session));
  return kExitOk;
}

}  // namespace fermata::cli
