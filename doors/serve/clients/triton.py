"""Calls every function of Triton's clients that the protocol has, by HTTP and by gRPC, and compares answers with ONNX Runtime's."""

import argparse
import collections
import pathlib
import queue
import shutil
import tempfile

import numpy as np
import onnx
import tritonclient.grpc
import tritonclient.http
from served import Case, serving
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

MODELS = ["magika", "surfaces_gbr", "skl_pls", "attacut_sc", "basic_pitch", "tiny_llama_fused_op23"]


def inputs(kind, case, **options):
    made = []
    for name, array in case.inputs.items():
        given = kind.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        given.set_data_from_numpy(array, **options)
        made.append(given)
    return made


def answers(case, result):
    return {name: result.as_numpy(name) for name in case.outputs}


def refused(call, *expected):
    try:
        call()
    except InferenceServerException as error:
        text = f"{error.status()} {error.message()}"
        assert all(part.lower() in text.lower() for part in expected), text
    else:
        raise AssertionError(f"expected an error with {expected}")


def check(kind, client, cases, counts):
    http = kind is tritonclient.http
    assert client.is_server_live() and client.is_server_ready()
    metadata = client.get_server_metadata() if http else client.get_server_metadata(as_json=True)
    assert metadata["name"] and metadata["version"] and "binary_tensor_data" in metadata["extensions"], metadata
    for case in cases:
        assert client.is_model_ready(case.name)
        about = client.get_model_metadata(case.name) if http else client.get_model_metadata(case.name, as_json=True)
        assert about["name"] == case.name
        assert {port["name"] for port in about["inputs"]} == set(case.inputs), about
        assert [port["name"] for port in about["outputs"]] == list(case.outputs), about
        for port in about["inputs"]:
            assert port["datatype"] == np_to_triton_dtype(case.inputs[port["name"]].dtype), about
        forms = [{"binary_data": True}, {"binary_data": False}] if http else [{}]
        for form in forms:
            case.check(answers(case, client.infer(case.name, inputs(kind, case, **form), request_id="7")))
            counts["answers"] += 1
            if http:
                wanted = [kind.InferRequestedOutput(name, **form) for name in case.outputs]
            else:
                wanted = [kind.InferRequestedOutput(name) for name in case.outputs]
            result = client.infer(case.name, inputs(kind, case, **form), outputs=wanted, model_version="1")
            case.check(answers(case, result))
            counts["answers"] += 1
        # One of the outputs alone.
        first = next(iter(case.outputs))
        only = client.infer(case.name, inputs(kind, case), outputs=[kind.InferRequestedOutput(first)])
        case.check_one(first, only.as_numpy(first))
        assert all(only.as_numpy(name) is None for name in case.outputs if name != first)
        counts["answers"] += 1
    extended(kind, client, cases, counts)
    case = cases[0]
    refused(lambda: client.infer("nobody", inputs(kind, case)), "nobody")
    refused(lambda: client.infer(case.name, []), next(iter(case.inputs)))
    refused(lambda: client.infer(case.name, inputs(kind, case), model_version="9"), "9")
    refused(lambda: client.infer(case.name, inputs(kind, case), outputs=[kind.InferRequestedOutput("no")]), "no")
    refused(lambda: client.get_model_metadata("nobody"), "nobody")
    wrong = kind.InferInput(next(iter(case.inputs)), [1, 3], "FP64")
    wrong.set_data_from_numpy(np.zeros((1, 3)))
    refused(lambda: client.infer(case.name, [wrong]), "FP64")
    counts["errors"] += 6


def extended(kind, client, cases, counts):
    """Triton's extensions: configuration, statistics, parameters, compression, classes, and what is not there."""
    http = kind is tritonclient.http
    as_json = {} if http else {"as_json": True}
    for case in cases:
        config = client.get_model_config(case.name, **as_json)
        config = config if http else config["config"]
        assert config["name"] == case.name and config["backend"] == "cpu", config
        assert {port["name"] for port in config["input"]} == set(case.inputs), config
        for coding in ("gzip", "deflate"):
            if http:
                packed = {"request_compression_algorithm": coding, "response_compression_algorithm": coding}
            else:
                packed = {"compression_algorithm": coding}
            result = client.infer(case.name, inputs(kind, case), sequence_id=5, sequence_start=True, priority=3, **packed)
            case.check(answers(case, result))
            counts["answers"] += 1
        stats = client.get_inference_statistics(case.name, **as_json)["model_stats"]
        assert len(stats) == 1 and stats[0]["name"] == case.name, stats
        assert int(stats[0]["inference_stats"]["success"]["count"]) >= 4, stats
        assert int(stats[0]["execution_count"]) >= 4 and stats[0]["batch_stats"], stats
    assert len(client.get_inference_statistics(**as_json)["model_stats"]) == len(cases)
    assert not client.is_model_ready("nobody") and not client.is_model_ready(cases[0].name, "9")
    case = next(case for case in cases if case.name == "magika")
    name, expected = next(iter(case.outputs.items()))
    most = 3
    wanted = kind.InferRequestedOutput(name, class_count=most)
    classes = client.infer(case.name, inputs(kind, case), outputs=[wanted]).as_numpy(name)
    rows = expected.reshape(-1, expected.shape[-1]) if classes.ndim == 2 else expected.reshape(1, -1)
    for row, texts in zip(rows, classes.reshape(-1, most)):
        for index, text in zip(np.argsort(-row, kind="stable"), texts):
            value, place = text.decode().split(":")
            assert int(place) == index and abs(float(value) - row[index]) < 1e-3, (text, row[index], index)
    counts["answers"] += 1
    refused(lambda: client.get_system_shared_memory_status(), "shared memory")
    refused(lambda: client.get_cuda_shared_memory_status(), "shared memory")
    refused(lambda: client.get_log_settings(), "log")
    refused(lambda: client.get_trace_settings(), "trace")
    refused(lambda: client.load_model(case.name), "repository")
    counts["errors"] += 5


def guarded(bb, folder):
    """Asks a server with encrypted connections and a token by both protocols."""
    data = pathlib.Path(__file__).parents[1] / "tests/data"
    token = pathlib.Path(folder) / "token"
    token.write_text("s3cret\n")
    options = ["--token-file", str(token), "--certificate", str(data / "certificate.pem"), "--key", str(data / "key.pem")]
    case, headers = Case("surfaces_gbr"), {"authorization": "Bearer s3cret"}
    counts = collections.Counter()
    with serving(bb, [case], *options) as server:
        encrypted = {"ssl": True, "ssl_options": {"ca_certs": str(data / "certificate.pem")}}
        with tritonclient.http.InferenceServerClient(server.http, **encrypted) as client:
            assert client.is_server_ready()
            # A copy, because the client for HTTP adds the length of its body, a number, to the headers that it is given.
            case.check(answers(case, client.infer(case.name, inputs(tritonclient.http, case), headers=dict(headers))))
            refused(lambda: client.infer(case.name, inputs(tritonclient.http, case)), "token")
        encrypted = {"ssl": True, "root_certificates": str(data / "certificate.pem")}
        with tritonclient.grpc.InferenceServerClient(server.grpc, **encrypted) as client:
            assert client.is_server_ready()
            case.check(answers(case, client.infer(case.name, inputs(tritonclient.grpc, case), headers=headers)))
            refused(lambda: client.infer(case.name, inputs(tritonclient.grpc, case)), "token")
    counts["answers"] += 2
    counts["errors"] += 2
    return counts


def repository(bb, folder):
    """Loads, replaces and unloads models by both protocols."""
    root = pathlib.Path(folder) / "repository"
    case = Case("surfaces_gbr")
    for version in ("1", "2"):
        (root / case.name / version).mkdir(parents=True)
        shutil.copy(case.path, root / case.name / version / "model.onnx")
    counts = collections.Counter()
    with serving(bb, [], "--repository", str(root), "--versions", "2") as server:
        for kind, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
            with kind.InferenceServerClient(address) as client:
                assert not client.is_model_ready(case.name)
                client.load_model(case.name)
                for version in ("", "1", "2"):
                    assert client.is_model_ready(case.name, version)
                    case.check(answers(case, client.infer(case.name, inputs(kind, case), model_version=version)))
                    counts["answers"] += 1
                index = client.get_model_repository_index()
                index = index if kind is tritonclient.http else [
                    {"name": row.name, "version": row.version, "state": row.state} for row in index.models
                ]
                assert [(row["version"], row["state"]) for row in index] == [("1", "READY"), ("2", "READY")], index
                client.unload_model(case.name)
                assert not client.is_model_ready(case.name)
                refused(lambda: client.infer(case.name, inputs(kind, case)), case.name)
                refused(lambda: client.load_model("../outside"))
                refused(lambda: client.load_model(case.name, config="{}"), "config")
                counts["errors"] += 3
    return counts


def at_once(client, case, counts, calls=50):
    """Many calls of the asynchronous HTTP interface."""
    made = [client.async_infer(case.name, inputs(tritonclient.http, case)) for _ in range(calls)]
    for call in made:
        case.check(answers(case, call.get_result()))
    counts["answers"] += calls


def at_once_by_grpc(client, case, counts, calls=50):
    results = queue.Queue()
    for _ in range(calls):
        client.async_infer(case.name, inputs(tritonclient.grpc, case), lambda result, error: results.put((result, error)))
    for _ in range(calls):
        result, error = results.get(timeout=60)
        assert error is None, error
        case.check(answers(case, result))
    counts["answers"] += calls


def made(folder):
    """Models of strings, of halves and of truth, which no model of the repository has as inputs and outputs."""
    words, ends = np.array([["a", "ü"], ["", "模"]], object), np.array([["1", "2"], ["3", ""]], object)
    joined = np.array([["a1", "ü2"], ["3", "模"]], object)
    halves = np.array([[0.5, -2.0, 65504.0]], np.float16)
    truth = np.array([[True, False], [False, False]])
    node = onnx.helper.make_node
    return [
        Case.made(folder, "strings", node("StringConcat", ["x", "y"], ["z"]), {"x": words, "y": ends}, {"z": joined}),
        Case.made(folder, "halves", node("Neg", ["x"], ["z"]), {"x": halves}, {"z": -halves}),
        Case.made(folder, "truth", node("Not", ["x"], ["z"]), {"x": truth}, {"z": ~truth}),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bb", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(name) for name in MODELS] + made(folder)
        counts = ask(options.bb, cases)
        # Those whose rows can be joined, joined.
        counts += ask(options.bb, cases[:2] + cases[-3:], "--max-batch", "8")
        counts += repository(options.bb, folder)
        counts += guarded(options.bb, folder)
    print(f"Triton's clients: {counts['answers']} answers as expected, {counts['errors']} requests refused as they should be")


def ask(bb, cases, *options):
    counts = collections.Counter()
    with serving(bb, cases, *options) as server:
        with tritonclient.http.InferenceServerClient(server.http, concurrency=8) as client:
            check(tritonclient.http, client, cases, counts)
            at_once(client, cases[0], counts)
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            check(tritonclient.grpc, client, cases, counts)
            at_once_by_grpc(client, cases[0], counts)
    return counts


if __name__ == "__main__":
    main()
