#include "engine/process/failure_cause.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

constexpr char kTraceback[] =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 3, in <module>\n"
    "    raise ValueError(\"error: no\")\n"
    "          ^^^^^^^^^^^^^^^^^^^^^^^\n";

constexpr char kTorchrun[] =
    "E1127 10:00:00.000 12 "
    "torch/distributed/elastic/multiprocessing/api.py:882]"
    " failed (exitcode: 1) local_rank: 0 (pid: 123) of binary: python3\n"
    "Traceback (most recent call last):\n"
    "  File \"torchrun\", line 8, in <module>\n"
    "    sys.exit(main())\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "ranks.py FAILED\n"
    "Failures:\n"
    "  <NO_OTHER_FAILURES>\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  exitcode  : 1 (pid: 123)\n"
    "  error_file: <N/A>\n"
    "  traceback : To enable traceback see: https://pytorch.org/errors.html\n";

struct Case {
  std::string name;
  std::string output;
  std::string cause;
};

std::vector<Case> Cases() {
  const std::string traceback = kTraceback;
  return {
      {"LoggerSaysGoodbye",
       traceback + "ValueError: bad column\n"
                   "logger: find the run's files in ./logs/errors.txt\n",
       "ValueError: bad column"},
      {"Torchrun",
       "[rank0]: Traceback (most recent call last):\n"
       "[rank0]:   File \"ranks.py\", line 5, in <module>\n"
       "[rank0]: ValueError: there is no data set\n" +
           std::string(kTorchrun),
       "ValueError: there is no data set"},
      {"TorchrunOfAProgramWithoutPython",
       "train: error: no such lens\n" + std::string(kTorchrun),
       "train: error: no such lens"},
      {"Accelerate",
       traceback + "KeyError: 'lr'\n" + traceback +
           "subprocess.CalledProcessError: Command '['python3']' returned "
           "non-zero exit status 1.\n",
       "KeyError: 'lr'"},
      {"ACommandOfTheProgramItself",
       traceback + "subprocess.CalledProcessError: Command 'ffmpeg' failed\n",
       "subprocess.CalledProcessError: Command 'ffmpeg' failed"},
      {"ProgressBar",
       "epoch 1:  55%|###| 11/20 [00:00<00:00, 842.61it/s]\n"
       "error: sample 371 cannot be read\n"
       "\repoch 1:  60%|####| 12/20 [00:00<00:00, 842.61it/s]\n",
       "error: sample 371 cannot be read"},
      {"ProgressWithoutABar", "shape mismatch\nstep 1 of 9\rstep 2 of 9\n",
       "shape mismatch"},
      {"TracebackBehindABar",
       "\r60%|##| 12/20 [00:00<00:00, 8.1it/s]" + traceback +
           "OSError: [Errno 5] Input/output error\n",
       "OSError: [Errno 5] Input/output error"},
      {"Faulthandler",
       "Fatal Python error: Segmentation fault\n\n"
       "Thread 0x00007f (most recent call first):\n"
       "  File \"/x/error.py\", line 3 in error\n\n"
       "Extension modules: numpy.core.error, pandas.errors (total: 2)\n",
       "Fatal Python error: Segmentation fault"},
      {"ChainedExceptions",
       traceback +
           "KeyError: 'a'\n\nDuring handling of the above exception, "
           "another exception occurred:\n\n" +
           traceback + "RuntimeError: no such layer\n",
       "RuntimeError: no such layer"},
      {"ExceptionsAfterTheEnd",
       traceback + "ValueError: bad\nException ignored in: <function f>\n" +
           traceback + "AttributeError: 'NoneType'\n" +
           "Error in atexit._run_exitfuncs:\n" + traceback +
           "ConnectionError: lost\nException in thread Thread-1 (pin):\n" +
           traceback + "EOFError\n",
       "ValueError: bad"},
      {"ExceptionOfAThread",
       "Exception in thread Thread-1 (run):\n" + traceback +
           "socket.timeout: timed out\nstopping\n",
       "socket.timeout: timed out"},
      {"ExceptionThatWasLogged",
       traceback + "OSError: skipped\n" +
           [] {
             std::string lines;
             for (int i = 0; i < 100; ++i)
               lines += "step " + std::to_string(i) + "\n";
             return lines;
           }() +
           "fatal: the lens is closed\nbye\n",
       "fatal: the lens is closed"},
      {"NamesAndValuesAreNoErrors",
       "the lens is closed\nsee /x/error.log\nval_error 0.31\nerror: 0.31, "
       "failed: 0\ndone\n",
       "done"},
      {"Warnings",
       "error: the lens is closed\nx.py:3: UserWarning: error in the lens\n"
       "  warnings.warn(\n",
       "error: the lens is closed"},
      {"Srun",
       "train: error: no such lens\n"
       "srun: error: node1: task 0: Exited with exit code 1\n",
       "train: error: no such lens"},
      {"UncaughtInCpp",
       "terminate called after throwing an instance of 'std::runtime_error'\n"
       "  what():  bad shape\n",
       "what():  bad shape"},
      {"SyntaxError",
       "  File \"train.py\", line 1\n    for\n       ^\n"
       "SyntaxError: invalid syntax\n",
       "SyntaxError: invalid syntax"},
      {"ExceptionGroup",
       "  + Exception Group Traceback (most recent call last):\n"
       "  |   File \"train.py\", line 3, in <module>\n"
       "  | ExceptionGroup: two (2 sub-exceptions)\n",
       "ExceptionGroup: two (2 sub-exceptions)"},
      {"OnlyALauncher", "srun: error: node1: task 0: Killed\n",
       "srun: error: node1: task 0: Killed"},
      {"OnlyABar", "\r60%|##| 12/20 [00:00<00:00, 8.1it/s]\n", ""},
  };
}

class FailureCauseTest : public testing::TestWithParam<Case> {};

TEST_P(FailureCauseTest, IsFound) {
  FailureCause cause;
  std::istringstream output(GetParam().output);
  for (std::string line; std::getline(output, line);) cause.Read(line);
  EXPECT_EQ(cause.Text(), GetParam().cause);
}

INSTANTIATE_TEST_SUITE_P(All, FailureCauseTest, testing::ValuesIn(Cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace dtrain
