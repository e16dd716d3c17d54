#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "server/calls/convert.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// The field that an error names; empty when there is none.
std::string FieldOf(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return "";
  return DetailsOf(status).metadata["field"];
}

template <typename Proto, typename Convert>
std::string Refused(const std::function<void(Proto&)>& spoil, Convert convert) {
  Proto proto;
  spoil(proto);
  return FieldOf(convert(proto).status());
}

absl::StatusOr<TurnRequest> ToTurn(const v1::GenerateRequest& proto) {
  return ToTurnRequest(proto, TimeLimits());
}

TEST(SessionRefTest, EveryFieldArrives) {
  v1::GenerateRequest proto;
  v1::SessionRef& ref = *proto.mutable_session();
  ref.set_id("s");
  ref.set_create_if_missing(true);
  ref.set_durability(v1::DISK);
  ref.set_max_checkpoints(0);
  ref.set_fork_from("t");
  auto turn = ToTurn(proto);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_EQ(turn->session->durability, Durability::kDisk);
  EXPECT_EQ(turn->session->max_checkpoints, 0);
  EXPECT_EQ(turn->session->fork_from, "t");
  ref.Clear();
  ref.set_id("s");
  turn = ToTurn(proto);
  EXPECT_FALSE(turn->session->durability.has_value());
  EXPECT_FALSE(turn->session->max_checkpoints.has_value());
  EXPECT_EQ(turn->session->fork_from, "");
}

TEST(SessionRefTest, BadValuesNameTheirField) {
  using Proto = v1::GenerateRequest;
  const auto refused = [](const std::function<void(v1::SessionRef&)>& spoil) {
    return Refused<Proto>(
        [&](Proto& p) {
          p.mutable_session()->set_id("s");
          p.mutable_session()->set_create_if_missing(true);
          spoil(*p.mutable_session());
        },
        ToTurn);
  };
  using Ref = v1::SessionRef;
  EXPECT_EQ(refused([](Ref& r) { r.set_durability(static_cast<v1::Durability>(3)); }),
            "session.durability");
  EXPECT_EQ(refused([](Ref& r) { r.set_max_checkpoints(-1); }), "session.max_checkpoints");
  EXPECT_EQ(refused([](Ref& r) { r.set_max_checkpoints(65); }), "session.max_checkpoints");
  EXPECT_EQ(refused([](Ref& r) { r.set_fork_from("a b"); }), "session.fork_from");
  EXPECT_EQ(refused([](Ref& r) {
              r.set_fork_from("t");
              r.set_create_if_missing(false);
            }),
            "session.fork_from");
}

TEST(OnDisconnectTest, FinishNeedsAnId) {
  v1::GenerateRequest proto;
  proto.set_on_disconnect(v1::ON_DISCONNECT_FINISH);
  EXPECT_EQ(FieldOf(ToTurn(proto).status()), "on_disconnect");
  proto.set_request_id("r");
  EXPECT_TRUE(ToTurn(proto).ok());
  proto.set_on_disconnect(static_cast<v1::OnDisconnect>(7));
  EXPECT_EQ(FieldOf(ToTurn(proto).status()), "on_disconnect");
}

TEST(AttachTest, IsChecked) {
  v1::AttachRequest proto;
  EXPECT_EQ(FieldOf(CheckAttach(proto)), "request_id");
  proto.set_request_id("a\nb");
  EXPECT_EQ(FieldOf(CheckAttach(proto)), "request_id");
  proto.set_request_id("r");
  EXPECT_TRUE(CheckAttach(proto).ok());
  proto.set_from_index(-1);
  EXPECT_EQ(FieldOf(CheckAttach(proto)), "from_index");
}

TEST(CreateTest, DurabilityAndCheckpointsArrive) {
  v1::CreateSessionRequest proto;
  proto.set_durability(v1::MEMORY);
  proto.set_max_checkpoints(64);
  const auto options = ToCreateOptions(proto);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->durability, Durability::kMemory);
  EXPECT_EQ(options->max_checkpoints, 64);
  proto.set_max_checkpoints(65);
  EXPECT_EQ(FieldOf(ToCreateOptions(proto).status()), "max_checkpoints");
}

TEST(UpdateTest, UnsetAndSetDiffer) {
  v1::UpdateSessionRequest proto;
  auto options = ToUpdateOptions(proto);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_FALSE(options->expected.position.has_value());
  EXPECT_FALSE(options->expected.revision.has_value());
  EXPECT_FALSE(options->durability.has_value());
  EXPECT_FALSE(options->max_checkpoints.has_value());
  EXPECT_FALSE(options->pinned.has_value());
  proto.set_expected_position(0);
  proto.set_expected_revision(18446744073709551615u);
  proto.set_durability(v1::DISK);
  proto.set_max_checkpoints(0);
  proto.set_pinned(false);
  options = ToUpdateOptions(proto);
  EXPECT_EQ(options->expected.position, 0);
  EXPECT_EQ(options->expected.revision, 18446744073709551615u);
  EXPECT_EQ(options->durability, Durability::kDisk);
  EXPECT_EQ(options->max_checkpoints, 0);
  EXPECT_EQ(options->pinned, false);
  proto.set_expected_position(-1);
  EXPECT_EQ(FieldOf(ToUpdateOptions(proto).status()), "expected_position");
}

TEST(ForkTest, EveryFieldArrives) {
  v1::ForkSessionRequest proto;
  proto.set_id("s");
  proto.set_new_id("t");
  proto.mutable_from()->set_turns(4);
  (*proto.mutable_labels())["a"] = "b";
  proto.mutable_time_to_live()->set_seconds(9);
  proto.set_durability(v1::DISK);
  proto.set_max_checkpoints(3);
  proto.set_expected_position(7);
  proto.set_expected_revision(8);
  const auto options = ToForkOptions(proto);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->target.id, "t");
  EXPECT_THAT(options->target.labels, ElementsAre(Pair("a", "b")));
  EXPECT_EQ(options->target.ttl, absl::Seconds(9));
  EXPECT_EQ(options->target.durability, Durability::kDisk);
  EXPECT_EQ(options->target.max_checkpoints, 3);
  EXPECT_EQ(options->place.turns, 4);
  EXPECT_EQ(options->expected.position, 7);
  EXPECT_EQ(options->expected.revision, 8);

  using Proto = v1::ForkSessionRequest;
  const auto refused = [](const std::function<void(Proto&)>& spoil) {
    return Refused<Proto>(spoil, ToForkOptions);
  };
  EXPECT_EQ(refused([](Proto& p) { p.set_new_id("a b"); }), "new_id");
  EXPECT_EQ(refused([](Proto& p) { (*p.mutable_labels())[""] = "x"; }), "labels");
  EXPECT_EQ(refused([](Proto& p) { p.mutable_time_to_live(); }), "time_to_live");
  EXPECT_EQ(refused([](Proto& p) { p.set_max_checkpoints(-1); }), "max_checkpoints");
  EXPECT_EQ(refused([](Proto& p) { p.mutable_from()->set_turns(-1); }), "from.turns");
}

TEST(PlaceTest, OneOfEach) {
  v1::Checkpoint proto;
  auto place = ToPlace(proto, "to");
  EXPECT_TRUE(!place->turns && !place->position && !place->before_last_turn);
  proto.set_turns(0);
  EXPECT_EQ(ToPlace(proto, "to")->turns, 0u);
  proto.set_position(0);
  EXPECT_EQ(ToPlace(proto, "to")->position, 0);
  proto.set_position(-1);
  EXPECT_EQ(FieldOf(ToPlace(proto, "to").status()), "to.position");
  proto.set_before_last_turn(true);
  EXPECT_TRUE(ToPlace(proto, "to")->before_last_turn);
  proto.set_before_last_turn(false);
  EXPECT_EQ(FieldOf(ToPlace(proto, "to").status()), "to.before_last_turn");
}

TEST(ExpectedTest, OfDeleteAndRewind) {
  v1::DeleteSessionRequest del;
  del.set_expected_revision(5);
  EXPECT_EQ(ToExpected(del)->revision, 5u);
  EXPECT_FALSE(ToExpected(del)->position.has_value());
  v1::RewindSessionRequest rewind;
  rewind.set_expected_position(6);
  EXPECT_EQ(ToExpected(rewind)->position, 6);
  rewind.set_expected_position(-6);
  EXPECT_EQ(FieldOf(ToExpected(rewind).status()), "expected_position");
}

TEST(ImportOptionsTest, TheIdIsChecked) {
  v1::ImportOptions proto;
  EXPECT_EQ(ToImportOptions(proto)->id, "");
  proto.set_id("a");
  proto.set_replace(true);
  EXPECT_EQ(ToImportOptions(proto)->id, "a");
  EXPECT_TRUE(ToImportOptions(proto)->replace);
  proto.set_id("/");
  EXPECT_EQ(FieldOf(ToImportOptions(proto).status()), "options.id");
}

}  // namespace
}  // namespace fermata
