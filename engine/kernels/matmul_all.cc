// Who does what of several products when.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_lines.h"
#include "engine/kernels/matmul_rows.h"

namespace fermata {
namespace {

// Rows that one task multiplies: enough to reuse a piece's weights from the cache, few enough that
// two threads find work in a narrow matrix.
constexpr int64_t kTaskRows = 96;
// What a piece and one row are worth in multiply-adds when a library has multiplied them.
constexpr int64_t kFinishWork = kPieceColumns * 8;

using Way = MatmulBackend::Way;

// Memory of the calling thread, aligned to a cache line; valid until the thread's next call.
std::byte* Scratch(size_t bytes) {
  thread_local AlignedBuffer<std::byte> scratch;
  if (scratch.size() < bytes) scratch = AlignedBuffer<std::byte>(bytes);
  return scratch.data();
}

// Products of at most kMostRowsAtOnce rows.
class Step {
 public:
  Step(std::span<const BackendProduct> products, int64_t first_row, int64_t rows)
      : first_row_(first_row), rows_(rows), cuts_(RoundUp(rows, kTaskRows) / kTaskRows) {
    for (const BackendProduct& product : products) Add(product);
  }

  void Run() {
    FillRows();
    for (const Member& member : members_) {
      if (member.way != Way::kPieces) {
        member.product->matrix->MultiplyWhole(narrow_[member.narrow], member.y);
      }
    }
    int64_t units = 0;
    for (const Company& company : companies_) units += company.units * company.pieces * cuts_;
    ParallelFor(units, std::max<int64_t>(rows_, 8) / cuts_,
                [&](int64_t begin, int64_t end) { RunUnits(begin, end); });
  }

 private:
  struct Member {
    const BackendProduct* product;
    Way way;
    size_t narrow;  // Of narrow_.
    float* y;
  };

  // Members that advance together: members_[begin, end).
  struct Company {
    size_t begin;
    size_t end;
    int64_t pieces;
    int64_t units;  // Multiply-adds of one piece and one row, of all members.
  };

  void Add(const BackendProduct& product) {
    const MatmulBackend& matrix = *product.matrix;
    const NarrowRows rows(matrix.row_format(), product.x + first_row_ * matrix.in_features(), rows_,
                          matrix.in_features());
    const size_t narrow = std::ranges::find(narrow_, rows) - narrow_.begin();
    if (narrow == narrow_.size()) narrow_.push_back(rows);
    const Way way = matrix.WayFor(rows_);
    const int64_t pieces = RoundUp(matrix.out_features(), kPieceColumns) / kPieceColumns;
    const bool joins = !members_.empty() &&
                       matrix.out_features() == members_.back().product->matrix->out_features();
    if (!joins) companies_.push_back({members_.size(), members_.size(), pieces, 0});
    members_.push_back({&product, way, narrow, product.y + first_row_ * matrix.out_features()});
    ++companies_.back().end;
    const bool finishes = product.finish != nullptr && *product.finish != nullptr;
    if (way == Way::kPieces) {
      companies_.back().units += std::max<int64_t>(matrix.piece_work(), 1);
    } else if (way == Way::kWholeThenPieces || finishes) {
      companies_.back().units += kFinishWork;
    }
  }

  void FillRows() {
    int64_t bytes = 0;
    int64_t work = 0;
    for (const NarrowRows& rows : narrow_) {
      bytes += rows.bytes();
      work += rows.fill_work();
    }
    if (work == 0) return;
    std::byte* memory = Scratch(bytes);
    for (NarrowRows& rows : narrow_) {
      rows.Place(memory);
      memory += rows.bytes();
    }
    ParallelFor(rows_, work, [&](int64_t begin, int64_t end) {
      for (const NarrowRows& rows : narrow_) {
        for (int64_t row = begin; row < end; ++row) rows.Fill(row);
      }
    });
  }

  // A company's piece and cut of rows is a task, of as many units as it takes. It belongs to whoever
  // has the first of them.
  void RunUnits(int64_t begin, int64_t end) const {
    int64_t first = 0;
    for (const Company& company : companies_) {
      if (company.units == 0) continue;
      const int64_t tasks = company.pieces * cuts_;
      int64_t task = std::max<int64_t>(begin - first + company.units - 1, 0) / company.units;
      for (; task < tasks && first + task * company.units < end; ++task) RunTask(company, task);
      first += tasks * company.units;
    }
  }

  void RunTask(const Company& company, int64_t task) const {
    const int64_t row = task % cuts_ * kTaskRows;
    const MatmulBackend::Piece piece = {.row = row,
                                        .rows = std::min(kTaskRows, rows_ - row),
                                        .column = task / cuts_ * kPieceColumns};
    for (size_t i = company.begin; i < company.end; ++i) {
      const Member& member = members_[i];
      if (member.way != Way::kWhole) {
        member.product->matrix->MultiplyPiece(narrow_[member.narrow], piece, member.y);
      }
      FinishPiece(member, piece);
    }
  }

  void FinishPiece(const Member& member, const MatmulBackend::Piece& piece) const {
    const Finish* finish = member.product->finish;
    if (finish == nullptr || *finish == nullptr) return;
    const int64_t width = member.product->matrix->out_features();
    const int64_t count = std::min(kPieceColumns, width - piece.column);
    for (int64_t row = piece.row; row < piece.row + piece.rows; ++row) {
      (*finish)(first_row_ + row, piece.column, member.y + row * width + piece.column, count);
    }
  }

  int64_t first_row_;
  int64_t rows_;
  int64_t cuts_;
  std::vector<NarrowRows> narrow_;
  std::vector<Member> members_;
  std::vector<Company> companies_;
};

}  // namespace

void MultiplyAll(std::span<const BackendProduct> products, int64_t rows) {
  for (int64_t row = 0; row < rows; row += kMostRowsAtOnce) {
    Step(products, row, std::min(kMostRowsAtOnce, rows - row)).Run();
  }
}

void MatmulBackend::Multiply(const float* x, int64_t rows, float* y) const {
  const BackendProduct product = {.matrix = this, .x = x, .y = y};
  MultiplyAll({&product, 1}, rows);
}

}  // namespace fermata
