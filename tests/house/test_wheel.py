"""What is installed is all of src/outlast: the .sql files and the web room as much as the code."""

import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.house import tree


def shipped(wheel: Path) -> set[str]:
    """List what a wheel installs of ours."""
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("outlast/")}


def kept(folder: Path) -> set[str]:
    """List the files of a package's folder, named as a wheel names them."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(folder.parent).as_posix() for path in files}


def test_the_wheel_ships_every_file_of_the_package(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(tree.ROOT)).build(directory=str(tmp_path))
    assert shipped(Path(wheel)) == kept(tree.SOURCE)


# ---- this test can fail ----


def test_a_file_that_was_left_out_is_found(tmp_path: Path) -> None:
    package = tmp_path / "outlast"
    (package / "stores").mkdir(parents=True)
    for name in ("run.py", "stores/claim_run.sql"):
        (package / name).touch()
    wheel = tmp_path / "outlast.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(package / "run.py", "outlast/run.py")
    assert kept(package) - shipped(wheel) == {"outlast/stores/claim_run.sql"}
