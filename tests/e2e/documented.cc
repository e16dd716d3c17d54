#include "tests/e2e/documented.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "tests/e2e/child_process.h"

namespace fermata::e2e {

HttpReply DocumentedCalls::Call(const HttpCall& call) {
  HttpReply reply = CallHttp(port_, call);
  Note(call, reply);
  return reply;
}

void DocumentedCalls::Note(const HttpCall& call, const HttpReply& reply) {
  if (call.method == "HEAD" || reply.status == 405) return;  // As for any path.
  const std::string path = call.target.substr(0, call.target.find('?'));
  const bool is_text = reply.Header("content-type") != "application/octet-stream";
  answers_.push_back(nlohmann::json{{"method", call.method},
                                    {"path", path},
                                    {"status", reply.status},
                                    {"headers", reply.headers},
                                    {"body", is_text ? reply.body : ""}}
                         .dump());
}

std::string DocumentedCalls::Check(const std::string& option) const {
  TempDir directory;
  WriteAll(directory / "openapi.json", CallHttp(port_, {.target = "/openapi.json"}).body);
  std::string lines;
  for (const std::string& answer : answers_) lines += answer + "\n";
  WriteAll(directory / "answers", lines);
  const char* source = std::getenv("FERMATA_SOURCE_DIR");
  if (source == nullptr) throw std::runtime_error("FERMATA_SOURCE_DIR is not set: run by ctest");
  const std::string command =
      std::string("python3 -W ignore '") + source + "/tests/e2e/check_answers.py' '" +
      (directory / "openapi.json").string() + "' '" + (directory / "answers").string() + "' " +
      option + " >'" + (directory / "problems").string() + "' 2>&1";
  const int status = std::system(command.c_str());
  const std::string problems = ReadAll(directory / "problems");
  if (status == 0) return "";
  return problems.empty() ? "check_answers.py failed" : problems;
}

}  // namespace fermata::e2e
