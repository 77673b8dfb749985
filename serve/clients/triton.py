"""Calls every function of Triton's clients that the protocol has, by HTTP and by gRPC, and compares answers with ONNX Runtime's."""

import argparse
import collections

import numpy as np
import tritonclient.grpc
import tritonclient.http
from served import Case, serving
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

MODELS = ["magika", "surfaces_gbr", "skl_pls", "skl_ovo", "attacut_sc", "basic_pitch", "tiny_llama_fused_op23"]


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
        np.testing.assert_allclose(only.as_numpy(first), case.outputs[first], rtol=1e-3, atol=1e-5)
        assert all(only.as_numpy(name) is None for name in case.outputs if name != first)
        counts["answers"] += 1
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


def at_once(client, case, counts, calls=50):
    """Many calls of the asynchronous HTTP interface."""
    made = [client.async_infer(case.name, inputs(tritonclient.http, case)) for _ in range(calls)]
    for call in made:
        case.check(answers(case, call.get_result()))
    counts["answers"] += calls


def at_once_by_grpc(client, case, counts, calls=50):
    results = collections.deque()
    made = [
        client.async_infer(case.name, inputs(tritonclient.grpc, case), lambda result, error: results.append((result, error)))
        for _ in range(calls)
    ]
    for call in made:
        call.get_result(timeout=60)
    for result, error in results:
        assert error is None, error
        case.check(answers(case, result))
    assert len(results) == calls
    counts["answers"] += calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bb", required=True)
    options = parser.parse_args()
    cases = [Case(name) for name in MODELS]
    counts = collections.Counter()
    with serving(options.bb, cases, "--max-batch", "8") as server:
        with tritonclient.http.InferenceServerClient(server.http, concurrency=8) as client:
            check(tritonclient.http, client, cases, counts)
            at_once(client, cases[0], counts)
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            check(tritonclient.grpc, client, cases, counts)
            at_once_by_grpc(client, cases[0], counts)
    print(f"Triton's clients: {counts['answers']} answers as ONNX Runtime's, {counts['errors']} requests refused as they should be")


if __name__ == "__main__":
    main()
