"""Makes models as users export them, with the outputs expected, for `bb conformance DIR --backend NAME`.

`python tests/models/make.py DIR` installs what it needs in an environment of its own, `target/models`, and writes

- `DIR/forms`: what ONNX Runtime's optimiser and quantisers make of the models in `tests/data/models` and in the folders that
  `--cases` names, with ONNX Runtime's outputs (`variants.py`);
- `DIR/estimators`: estimators and pipelines of scikit-learn, LightGBM and XGBoost, with the libraries' own predictions
  (`train.py`). With `--bb PROGRAM` also `DIR/estimators/table.md`, the differences of what that `bb` computes.

Tolerances are in each case's `data.json`, with their reasons. `--renew` copies what `tests/data/exported` has from there.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
ENVIRONMENT = TESTS.parent / "target" / "models"


def python():
    """The Python of the environment, which is made or brought up to date first."""
    program = ENVIRONMENT / "bin" / "python"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    install = [program, "-m", "pip", "install", "--quiet", "--requirement", HERE / "requirements.txt"]
    subprocess.run(install, check=True)
    return program


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--cases", type=pathlib.Path, nargs="*", default=[], help="more folders with models")
    arguments.add_argument("--bb", help="the program whose outputs the table compares")
    arguments.add_argument("--renew", action="store_true", help="renew tests/data/exported")
    asked = arguments.parse_args()
    program = python()
    forms, estimators = asked.folder / "forms", asked.folder / "estimators"
    subprocess.run([program, HERE / "variants.py", forms, TESTS / "data" / "models", *asked.cases], check=True)
    compared = ["--bb", asked.bb] if asked.bb else []
    subprocess.run([program, HERE / "train.py", estimators, *compared], check=True)
    if asked.renew:
        kept = [path.parent for path in (TESTS / "data" / "exported").glob("*/model.onnx")]
        for folder in kept:
            made = next(path / folder.name for path in (forms, estimators) if (path / folder.name).exists())
            shutil.rmtree(folder)
            shutil.copytree(made, folder)


if __name__ == "__main__":
    main()
