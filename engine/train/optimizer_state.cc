#include "engine/train/optimizer_state.h"

#include <memory>
#include <utility>

#include <torch/optim.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/train/fused_optimizers.h"
#include "engine/train/tensor_file.h"

// LibTorch keeps an optimizer's state in a map from parameters (by address) to
// objects of a type that depends on the optimizer. The functions below visit
// the fields of each such type ("slots": tensors or integers) and store them
// under the parameter's name in the checkpoint.
//
// Addresses mean nothing in another process, hence the names. The learning rate
// and the number of steps are facts of the checkpoint, not tensors. They are
// loaded only if the trial resumes; one that begins with the weights of another
// experiment keeps its own. A checkpoint of another optimizer, other groups or
// other parameters is refused.

namespace dtrain {

namespace {

namespace optim = torch::optim;

// ForEachSlot calls `visit(name, slot)` for each field of a parameter's state.
// Slots are tensors or integers.

template <typename Visit>
void ForEachSlot(optim::SGDParamState& state, Visit visit) {
  visit("momentum_buffer", state.momentum_buffer());
}

template <typename State, typename Visit>
void ForEachAdamSlot(State& state, Visit visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename Visit>
void ForEachSlot(optim::AdamParamState& state, Visit visit) {
  ForEachAdamSlot(state, visit);
}

template <typename Visit>
void ForEachSlot(optim::AdamWParamState& state, Visit visit) {
  ForEachAdamSlot(state, visit);
}

template <typename Visit>
void ForEachSlot(optim::RMSpropParamState& state, Visit visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

template <typename Visit>
void ForEachSlot(optim::AdagradParamState& state, Visit visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}

// Calls `act(type name, State*)` with a null pointer to the type of state that
// `optimizer` keeps for a parameter.
template <typename Act>
auto WithStateType(const optim::Optimizer& optimizer, Act act) {
  const auto is = [&]<typename T>(const T*) {
    return dynamic_cast<const T*>(&optimizer) != nullptr;
  };
  if (is(static_cast<optim::SGD*>(nullptr))) {
    return act("SGD", static_cast<optim::SGDParamState*>(nullptr));
  }
  if (is(static_cast<optim::Adam*>(nullptr))) {
    return act("Adam", static_cast<optim::AdamParamState*>(nullptr));
  }
  if (is(static_cast<optim::AdamW*>(nullptr))) {
    return act("AdamW", static_cast<optim::AdamWParamState*>(nullptr));
  }
  if (is(static_cast<optim::RMSprop*>(nullptr))) {
    return act("RMSprop", static_cast<optim::RMSpropParamState*>(nullptr));
  }
  if (is(static_cast<optim::Adagrad*>(nullptr))) {
    return act("Adagrad", static_cast<optim::AdagradParamState*>(nullptr));
  }
  const bool is_lbfgs = is(static_cast<optim::LBFGS*>(nullptr));
  throw Error(ErrorKind::kFailed,
              std::string(is_lbfgs ? "LBFGS" : "an unknown optimizer") +
                  " cannot be saved in checkpoints; use SGD, Adam, AdamW, "
                  "RMSprop or Adagrad");
}

std::string TensorName(const NamedOptimizer& entry,
                       const std::string& parameter, const char* slot) {
  return entry.name + "/" + parameter + "/" + slot;
}

template <typename State>
OptimizerState Save(const NamedOptimizer& entry, const ParameterNames& names) {
  OptimizerState saved;
  nlohmann::json groups = nlohmann::json::array();
  const auto& states = std::as_const(*entry.optimizer).state();
  for (const auto& group : entry.optimizer->param_groups()) {
    nlohmann::json parameters = nlohmann::json::array();
    for (const torch::Tensor& parameter : group.params()) {
      const std::string& name = names.at(parameter.unsafeGetTensorImpl());
      nlohmann::json fact = {{"name", name}};
      const auto found = states.find(parameter.unsafeGetTensorImpl());
      if (found != states.end()) {
        fact["state"] = nlohmann::json::object();
        ForEachSlot(static_cast<State&>(*found->second),
                    [&]<typename Slot>(const char* slot, Slot& value) {
                      if constexpr (std::is_same_v<Slot, torch::Tensor>) {
                        if (!value.defined()) return;
                        saved.tensors.emplace_back(
                            TensorName(entry, name, slot), value);
                      } else {
                        fact["state"][slot] = value;
                      }
                    });
      }
      parameters.push_back(std::move(fact));
    }
    groups.push_back({{"lr", JsonNumber(group.options().get_lr())},
                      {"parameters", std::move(parameters)}});
  }
  saved.facts = {{"name", entry.name},
                 {"steps", entry.steps},
                 {"groups", std::move(groups)}};
  return saved;
}

// Tensor slot in the device and memory format of its parameter.
torch::Tensor Placed(const torch::Tensor& value,
                     const torch::Tensor& parameter) {
  const torch::NoGradGuard no_grad;
  if (value.sizes() != parameter.sizes()) return value.to(parameter.device());
  // Same memory format as the parameter, so that steps are as fast as before.
  return torch::empty_like(parameter, parameter.options()
                                          .dtype(value.scalar_type())
                                          .requires_grad(false))
      .copy_(value);
}

template <typename State>
void LoadParameter(NamedOptimizer& entry, const torch::Tensor& parameter,
                   const nlohmann::json& fact,
                   const std::map<std::string, torch::Tensor>& tensors) {
  auto& states = entry.optimizer->state();
  if (!fact.contains("state")) {
    states.erase(parameter.unsafeGetTensorImpl());
    return;
  }
  const std::string name = fact.at("name").get<std::string>();
  auto state = std::make_unique<State>();
  ForEachSlot(*state, [&]<typename Slot>(const char* slot, Slot& value) {
    if constexpr (std::is_same_v<Slot, torch::Tensor>) {
      const auto found = tensors.find(TensorName(entry, name, slot));
      if (found != tensors.end()) value = Placed(found->second, parameter);
    } else {
      value = fact["state"].at(slot).template get<Slot>();
    }
  });
  states[parameter.unsafeGetTensorImpl()] = std::move(state);
}

[[noreturn]] void Differs(const NamedOptimizer& entry, const std::string& how) {
  throw Error(ErrorKind::kFailed,
              "the checkpoint's optimizer '" + entry.name + "' " + how +
                  "; use the hyperparameters it was made with");
}

}  // namespace

std::string OptimizerType(const optim::Optimizer& optimizer) {
  return WithStateType(
      optimizer, [](const char* name, auto*) { return std::string(name); });
}

OptimizerState SaveOptimizer(const NamedOptimizer& entry,
                             const ParameterNames& names) {
  auto* flat = dynamic_cast<FusedOptimizer*>(entry.optimizer.get());
  if (flat != nullptr) flat->DownloadStepCounts();
  return WithStateType(*entry.optimizer,
                       [&]<typename State>(const char* type, State*) {
                         OptimizerState saved = Save<State>(entry, names);
                         saved.facts["type"] = type;
                         return saved;
                       });
}

void LoadOptimizer(NamedOptimizer& entry, const ParameterNames& names,
                   const std::map<std::string, torch::Tensor>& tensors,
                   const nlohmann::json& facts, bool resumes) {
  if (facts.at("type") != OptimizerType(*entry.optimizer)) {
    Differs(entry, "is " + facts.at("type").dump());
  }
  auto& groups = entry.optimizer->param_groups();
  const nlohmann::json& saved = facts.at("groups");
  if (saved.size() != groups.size()) Differs(entry, "has other groups");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto& parameters = groups[i].params();
    const nlohmann::json& its = saved[i].at("parameters");
    if (its.size() != parameters.size()) Differs(entry, "has other parameters");
    for (std::size_t j = 0; j < parameters.size(); ++j) {
      if (its[j].at("name") != names.at(parameters[j].unsafeGetTensorImpl())) {
        Differs(entry, "has other parameters");
      }
      WithStateType(*entry.optimizer, [&]<typename State>(const char*, State*) {
        LoadParameter<State>(entry, parameters[j], its[j], tensors);
      });
    }
    if (resumes) {
      groups[i].options().set_lr(NumberFromJson(saved[i].at("lr")));
    }
  }
  if (resumes) entry.steps = facts.at("steps").get<std::int64_t>();
}

}  // namespace dtrain
