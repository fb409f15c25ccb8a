#include "engine/ranks/collective_call.h"

namespace dtrain {
namespace {

std::string OpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "minimum";
    case ReduceOp::kMax:
      return "maximum";
  }
  return "unknown operation";
}

std::string TypeName(CollectiveCall::Type type) {
  switch (type) {
    case CollectiveCall::Type::kBytes:
      return "bytes";
    case CollectiveCall::Type::kFloat:
      return "float32";
    case CollectiveCall::Type::kDouble:
      return "float64";
    case CollectiveCall::Type::kInt64:
      return "int64";
  }
  return "unknown type";
}

}  // namespace

std::string Describe(const CollectiveCall& call) {
  const std::string size = " of " + std::to_string(call.bytes) + " bytes";
  const std::string from = " from rank " + std::to_string(call.root);
  switch (call.kind) {
    case CollectiveCall::Kind::kBarrier:
      return "a barrier";
    case CollectiveCall::Kind::kAllReduce:
      return "an all-reduce (" + OpName(call.op) + " of " +
             TypeName(call.type) + ")" + size;
    case CollectiveCall::Kind::kBroadcast:
      return "a broadcast" + size + from;
    case CollectiveCall::Kind::kBroadcastText:
      return "a broadcast of a text" + from;
    case CollectiveCall::Kind::kAllGather:
      return "an all-gather" + size + " a rank";
    case CollectiveCall::Kind::kAllGatherText:
      return "an all-gather of texts";
  }
  return "an unknown collective";
}

std::string DescribeDifference(const CollectiveCall& first, int rank,
                               const CollectiveCall& other) {
  return "the ranks of the trial do different things: rank 0 called " +
         Describe(first) + ", but rank " + std::to_string(rank) + " called " +
         Describe(other);
}

}  // namespace dtrain
