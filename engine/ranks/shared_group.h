#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "engine/ranks/collectives.h"
#include "engine/ranks/meeting.h"
#include "engine/ranks/rank_mapping.h"

namespace dtrain {

/// The collectives of the ranks of a trial on one machine, over memory that
/// they share (see MakeRankMemory).
///
/// A rank that is killed cannot say that it failed: who sees it die, the
/// runner, ends the others, who else wait until `give_up` says so. A memory in
/// which a rank failed is of no more use.
class SharedGroup final : public Collectives {
 public:
  /// Maps the memory; the descriptor may be closed then. Throws Error(kFailed)
  /// if that fails or it is not the memory of `ranks` ranks.
  /// REQUIRES: 0 <= rank < ranks.
  SharedGroup(int memory_fd, int rank, int ranks, GroupOptions options = {});
  /// The same on what is mapped already. REQUIRES: `mapping` outlives this.
  SharedGroup(const RankMapping& mapping, int rank, GroupOptions options = {});

  void SetAborted(std::string_view reason) override { meeting_.Abort(reason); }

 private:
  void Reduce(const CollectiveCall& call, std::span<std::byte> values) override;
  void Exchange(const CollectiveCall& call, std::span<const std::byte> mine,
                std::span<const std::span<std::byte>> into) override;
  template <typename T>
  void ReduceAs(const CollectiveCall& call, std::span<std::byte> bytes);
  std::byte* Staging(int rank, std::size_t use) const;

  const std::optional<RankMapping> own_mapping_;
  const RankMapping& mapping_;
  const int lane_;
  Meeting meeting_;
  // How often the staging buffers were used, each in its turn: over all calls,
  // so that none begins with the buffer that others still read.
  std::size_t uses_ = 0;
};

}  // namespace dtrain
