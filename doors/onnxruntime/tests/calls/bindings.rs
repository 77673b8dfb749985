//! Tests bindings, subsets of the outputs, and output values of programs.

use crate::{data, environment};
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{OutputSelector, RunOptions, Session};
use ort::value::Tensor;

const POINT: [f32; 4] = [0.57730556, 0.506829, 0.14141674, 0.8114217];

fn session(folder: &str) -> Session {
    let file = data("models").join(folder).join("model.onnx");
    Session::builder(environment()).unwrap().commit_from_file(file).unwrap()
}

#[test]
fn bound_values_are_read_and_written_from_run_to_run() {
    let mut session = session("surfaces_gbr");
    let mut binding = session.create_binding().unwrap();
    binding.bind_input("input", &Tensor::from_array(([1usize, 4], POINT.to_vec())).unwrap()).unwrap();
    binding.bind_output("variable", Tensor::<f32>::new(&Allocator::default(), [1usize, 1]).unwrap()).unwrap();
    let height = {
        let outputs = session.run_binding(&binding).unwrap();
        outputs["variable"].try_extract_tensor::<f32>().unwrap().1[0]
    };
    assert!((height - 0.26850086).abs() < 1e-5);

    binding
        .bind_input("input", &Tensor::from_array(([2usize, 4], [POINT, POINT].concat())).unwrap())
        .unwrap();
    let Err(error) = session.run_binding(&binding) else { panic!("two results fit where one is") };
    assert!(error.message().contains("`variable`"), "{error:?}");

    binding.clear_outputs();
    let host =
        MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Device, MemoryType::CPUOutput).unwrap();
    binding.bind_output_to_device("variable", &host).unwrap();
    let heights = {
        let outputs = session.run_binding(&binding).unwrap();
        outputs["variable"].try_extract_tensor::<f32>().unwrap().1.to_vec()
    };
    assert_eq!(heights, [height, height]);
    assert!(
        binding.bind_input("no such input", &Tensor::from_array(([1usize], vec![1f32])).unwrap()).is_err()
    );
    assert!(binding.bind_output_to_device("no such output", &host).is_err());
    let cuda =
        MemoryInfo::new(AllocationDevice::CUDA, 0, AllocatorType::Device, MemoryType::Default).unwrap();
    assert!(binding.bind_output_to_device("variable", &cuda).is_err());
}

#[test]
fn a_run_gives_the_outputs_that_it_is_asked_for() {
    let mut session = session("silero_vad_op16");
    let inputs = || {
        ort::inputs![
            "input" => Tensor::from_array(([1usize, 576], vec![0.1f32; 576])).unwrap(),
            "state" => Tensor::from_array(([2usize, 1, 128], vec![0f32; 256])).unwrap(),
            "sr" => Tensor::from_array(((), vec![16000i64])).unwrap(),
        ]
    };
    let all = {
        let outputs = session.run(inputs()).unwrap();
        outputs["output"].try_extract_tensor::<f32>().unwrap().1.to_vec()
    };
    let some = RunOptions::new().unwrap().with_outputs(OutputSelector::no_default().with("output"));
    let outputs = session.run_with_options(inputs(), &some).unwrap();
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs["output"].try_extract_tensor::<f32>().unwrap().1, all);
}

#[test]
fn results_of_a_run_are_inputs_of_the_next() {
    let mut session = session("silero_vad_op16");
    let mut state = Tensor::from_array(([2usize, 1, 128], vec![0f32; 256])).unwrap().into_dyn();
    let mut heard = Vec::new();
    // The model declares a scalar, but programs pass a tensor with one element, which ONNX Runtime accepts.
    for _ in 0..3 {
        let sound = Tensor::from_array(([1usize, 576], vec![0.1f32; 576])).unwrap();
        let rate = Tensor::from_array(([1usize], vec![16000i64])).unwrap();
        let mut outputs =
            session.run(ort::inputs!["input" => sound, "state" => state, "sr" => rate]).unwrap();
        heard.push(outputs["output"].try_extract_tensor::<f32>().unwrap().1[0]);
        state = outputs.remove("stateN").unwrap();
    }
    assert!(heard[0] != heard[1] && heard[1] != heard[2], "{heard:?}");
}
