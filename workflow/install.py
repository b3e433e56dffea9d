"""Make .venv and install the locked packages into it; say in one line what is wrong if it cannot be done.

Standard library only, and no syntax newer than Python 3.6: an old interpreter must get as far as the
line that tells it is too old. Called by the Makefile; needs no arguments.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)
GIGABYTES = 9  # what the environment and pip's temporary files take at their largest
ADVICE = {
    "No space left on device": f"the disk is full: free {GIGABYTES} GB under {ROOT}, then run again.",
    "ensurepip is not available": "this Python cannot make virtual environments: install its venv package "
    "(Debian, Ubuntu: apt-get install python3-venv), then run again.",
    # pip saw no index at all: every locked package exists
    "(from versions: none)": "no package index could be reached: check the network or pip's settings, "
    "then run again.",
}
"""What to do when a command says this."""

# MKL multiplies matrices for torch on a processor. It asks this function of its own whether to take its
# AVX-512 kernels, and denies them to AMD's processors, which have those instructions as well. A library that
# is loaded earlier answers first. Results change by rounding.
ANSWER = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
LIBRARY = VENV / "lib/mkl_on_amd.so"
LOAD = "import ctypes, sys; ctypes.CDLL(sys.prefix + '/lib/mkl_on_amd.so', ctypes.RTLD_GLOBAL)\n"


def stop(line):
    print(f"rollpe: {line}", file=sys.stderr)
    sys.exit(2)


def run(command, why):
    """Run a command; its output is kept and only its last error line is shown if it fails."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return
    output = done.stdout.decode("utf-8", "replace")
    for sign, advice in ADVICE.items():
        if sign in output:
            stop(advice)
    lines = [line for line in output.splitlines() if line.strip()] or ["no output"]
    errors = [line for line in lines if line.lower().startswith("error")]
    stop(f"{why}: {(errors or lines)[-1]}")


def speed_up_amd(python):
    """Let every Python of this environment load the answer; without AMD, Linux or a compiler, do nothing."""
    cpuinfo = Path("/proc/cpuinfo")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not cpuinfo.exists() or "AuthenticAMD" not in cpuinfo.read_text():
        return
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", LIBRARY]
    if subprocess.run(command, input=ANSWER.encode(), stderr=subprocess.DEVNULL).returncode == 0:
        where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        packages = subprocess.check_output(where).decode().strip()
        Path(packages, "mkl_on_amd.pth").write_text(LOAD)


def main():
    if sys.version_info[:2] < OLDEST:
        there, needed = (".".join(map(str, version)) for version in (sys.version_info[:2], OLDEST))
        stop(f"this is Python {there}, but {needed} or newer is needed: make book PYTHON=/path/to/python")
    fresh = not (VENV / "bin/pip").exists()  # also where making it was cut off
    if fresh and shutil.disk_usage(ROOT).free < GIGABYTES * 10**9:
        stop(f"less than {GIGABYTES} GB are free under {ROOT}: the environment does not fit.")

    print(
        "Making .venv and installing requirements.lock (a few minutes, about 3 GB to download) ...",
        flush=True,
    )
    if fresh:
        run([sys.executable, "-m", "venv", VENV], "no virtual environment could be made")
    python = VENV / "bin/python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--no-deps"]
    # the lock names all that the locked packages need; pip knows no hash for "package[extra]"
    locked = ["--require-hashes", "--requirement", "requirements.lock"]
    run(pip + locked, "the locked packages could not be installed")
    run(pip + ["--no-build-isolation", "--editable", "."], "the package could not be installed")
    speed_up_amd(python)
    (VENV / ".installed").write_text(f"{sys.version}\n")


if __name__ == "__main__":
    main()
