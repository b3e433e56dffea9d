"""Make .venv and install the locked packages into it; say in one line what is wrong if it cannot be done.

Standard library only, and no syntax newer than Python 3.0: an old interpreter must get as far as the
line that tells it is too old. Called by the Makefile; needs no arguments.
"""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, ".installed")
OLDEST = (3, 11)
GIGABYTES = 9  # what the environment and pip's temporary files take at their largest

# MKL multiplies matrices for torch on a processor. It asks this function of its own whether to take its
# AVX-512 kernels, and denies them to AMD's processors, which have those instructions as well. A library that
# is loaded earlier answers first. Results change by rounding.
ANSWER = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
LIBRARY = os.path.join(VENV, "lib", "mkl_on_amd.so")
LOAD = "import ctypes, sys; ctypes.CDLL(sys.prefix + '/lib/mkl_on_amd.so', ctypes.RTLD_GLOBAL)\n"


def stop(line):
    sys.stderr.write("rollpe: " + line + "\n")
    sys.exit(2)


def run(command, why):
    """Run a command; its output is kept and only its last error line is shown if it fails."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate()[0].decode("utf-8", "replace")
    if process.returncode == 0:
        return
    if "No space left on device" in output:
        stop("the disk is full: free %d GB under %s and run the command again." % (GIGABYTES, ROOT))
    if "ensurepip is not available" in output:
        stop("this Python cannot make virtual environments: install its venv package "
             "(Debian, Ubuntu: apt-get install python3-venv), then run again.")  # fmt: skip
    # pip says "from versions: none" when it saw no index at all; every locked package exists
    unreachable = ("Temporary failure in name resolution", "Network is unreachable", "Connection refused",
                   "Max retries exceeded", "(from versions: none)")  # fmt: skip
    if any(sign in output for sign in unreachable):
        stop("no package index could be reached: check the network or pip's settings, then run again.")
    lines = [line for line in output.splitlines() if line.strip()] or ["no output"]
    errors = [line for line in lines if line.lower().startswith("error")]
    stop(why + ": " + (errors or lines)[-1])


def speed_up_amd(python):
    """Let every Python of this environment load the answer; without AMD, Linux or a compiler, do nothing."""
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            amd = "AuthenticAMD" in cpuinfo.read()
    except OSError:
        amd = False
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not amd or compiler is None:
        return
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", LIBRARY]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.communicate(ANSWER.encode())
    if process.returncode == 0:
        where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        packages = subprocess.check_output(where).decode().strip()
        with open(os.path.join(packages, "mkl_on_amd.pth"), "w") as load:
            load.write(LOAD)


def main():
    if sys.version_info[:2] < OLDEST:
        versions = sys.version_info[:2] + OLDEST
        stop(
            "this is Python %d.%d, but %d.%d or newer is needed: make book PYTHON=/path/to/python" % versions
        )
    fresh = not os.path.exists(os.path.join(VENV, "bin", "pip"))  # also where making it was cut off
    if fresh and shutil.disk_usage(ROOT).free < GIGABYTES * 10**9:
        stop("less than %d GB are free under %s: the environment does not fit." % (GIGABYTES, ROOT))

    print("Making .venv and installing requirements.lock (a few minutes, about 3 GB to download) ...")
    sys.stdout.flush()
    if fresh:
        run([sys.executable, "-m", "venv", VENV], "no virtual environment could be made")
    python = os.path.join(VENV, "bin", "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    # the lock names all that the locked packages need; pip knows no hash for "package[extra]"
    locked = ["--no-deps", "--require-hashes", "--requirement", "requirements.lock"]
    run(pip + locked, "the locked packages could not be installed")
    own = ["--no-deps", "--no-build-isolation", "--editable", "."]
    run(pip + own, "the package could not be installed")
    speed_up_amd(python)
    with open(STAMP, "w") as stamp:
        stamp.write(sys.version + "\n")


if __name__ == "__main__":
    main()
