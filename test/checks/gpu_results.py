"""Do the newest GPU results belong to the tree as it is? Use: gpu_results.py RESULTS_FOLDER [ROOT]

A results folder is named DATE-GPU-DRIVER-COMMIT. Its results.json has "sources_hash" (the hash of pool/ and interposer/ that was
baked into the tested object), "commit" and "cases", a list of {name, label, status}; also "label" (gpu, gpu2: gpu if it is missing)
and "date". The newest of each label counts, and there has to be one for label gpu.
"""

import json
import pathlib
import sys

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cmake"))
from sources_hash import sources_hash  # noqa: E402

FIELDS = ("sources_hash", "commit", "cases")


def newest_of_each_label(results):
    """label -> (folder, record); and the problems met on the way."""
    newest, problems = {}, []
    for folder in sorted(p for p in results.iterdir() if p.is_dir()) if results.is_dir() else []:
        file = folder / "results.json"
        if not file.exists():
            problems.append(f"{folder.name}: results.json is missing")
            continue
        record = json.loads(file.read_text())
        label = record.get("label", "gpu")
        age = record.get("date", folder.name)
        if label not in newest or age >= newest[label][2]:
            newest[label] = (folder, record, age)
    return {label: row[:2] for label, row in newest.items()}, problems


def findings(results, root):
    newest, problems = newest_of_each_label(results)
    if "gpu" not in newest:
        problems.append(f"no results in {results.name}/ with label gpu")
    current = sources_hash(root, ["pool", "interposer"])
    for folder, record in newest.values():
        missing = [field for field in FIELDS if not record.get(field)]
        problems += [f"{folder.name}: field {field} is missing" for field in missing]
        if missing:
            continue
        if record["sources_hash"] != current:
            problems.append(f"{folder.name}: stale: tested sources {record['sources_hash']}, the tree is {current}")
        for case in record["cases"]:
            if case.get("status") not in ("pass", "missed"): # missed: a speed goal, see test/gpu/run_gpu.py
                problems.append(f"{folder.name}: {case.get('name')}: {case.get('status')}")
    return problems


folder = pathlib.Path(sys.argv[1])
tree = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")
common.finish(findings(folder, tree), "GPU results")
