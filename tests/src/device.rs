//! A backend whose tensors are handles to the memory of a worker thread, out of reach of the caller.
//!
//! As with a device, only the type and the shape of a tensor can be read without copying it to the host, the
//! backend has neither `Default` nor serde, and it answers whole graphs later. The worker computes with the
//! reference backend.

use bb::{
    Backend, BackendAttrs, BoxError, CompletionHandle, ContractResponse, DataType, GraphProto, Outputs,
    Primitive, Shape, TensorData, ir::op::Param,
};
use bb_reference::Reference;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

type Inner = <Reference as Backend>::Tensor;
type Memory = HashMap<u64, Inner>;
type Job = Box<dyn FnOnce(&Reference, &mut Memory) + Send>;

/// A tensor in the worker's memory; the memory is freed when the last handle is dropped.
#[derive(Clone)]
pub struct Handle(Arc<Allocation>);

struct Allocation {
    id: u64,
    dtype: DataType,
    shape: Shape,
    queue: Sender<Job>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let id = self.id;
        // If the worker has ended, its memory is gone too.
        let _gone = self.queue.send(Box::new(move |_, memory| {
            memory.remove(&id);
        }));
    }
}

impl bb::Tensor for Handle {
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }
}

/// The error of the device.
#[derive(Debug)]
pub enum DeviceError {
    /// The worker has ended.
    Lost,
    /// A tensor is not in the worker's memory.
    Foreign(u64),
    /// An operation failed.
    Operation(BoxError),
}

impl std::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeviceError::Lost => f.write_str("the device is lost"),
            DeviceError::Foreign(id) => write!(f, "tensor {id} is not in the device's memory"),
            DeviceError::Operation(_) => f.write_str("the device could not run the operation"),
        }
    }
}

impl std::error::Error for DeviceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DeviceError::Operation(source) => Some(&**source),
            DeviceError::Lost | DeviceError::Foreign(_) => None,
        }
    }
}

impl From<bb::Error> for DeviceError {
    fn from(error: bb::Error) -> Self {
        DeviceError::Operation(error.into())
    }
}

/// The device.
#[derive(bb::Backend)]
#[bb(name = "device", new = Device::start)]
pub struct Device {
    queue: Sender<Job>,
    next: Mutex<u64>,
}

impl Device {
    /// Starts the worker, which ends when the device and its tensors are dropped.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start() -> Result<Device, std::io::Error> {
        let (queue, jobs): (Sender<Job>, Receiver<Job>) = channel();
        std::thread::Builder::new().name("device".to_owned()).spawn(move || {
            let mut memory = Memory::new();
            for job in jobs {
                job(&Reference, &mut memory);
            }
        })?;
        Ok(Device { queue, next: Mutex::new(0) })
    }

    fn reserve(&self, count: u64) -> u64 {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next += count;
        *next - count
    }

    /// Runs a job on the worker and waits for its result.
    fn wait<R: Send + 'static>(
        &self,
        job: impl FnOnce(&Reference, &mut Memory) -> Result<R, DeviceError> + Send + 'static,
    ) -> Result<R, DeviceError> {
        let (answer, answered) = channel();
        let job: Job = Box::new(move |on, memory| {
            let _gave_up = answer.send(job(on, memory));
        });
        self.queue.send(job).map_err(|_| DeviceError::Lost)?;
        answered.recv().map_err(|_| DeviceError::Lost)?
    }

    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&Handle>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Handle>, DeviceError> {
        let ids: Vec<Option<u64>> = inputs.iter().map(|x| x.map(|x| x.0.id)).collect();
        let params: Vec<Param<'static>> = params.iter().map(|p| p.clone().into_owned()).collect();
        let first = self.reserve(RESULTS);
        let made = self.wait(move |on, memory| {
            let operands: Vec<Option<Inner>> =
                ids.into_iter().map(|id| load(memory, id)).collect::<Result<_, _>>()?;
            let operands: Vec<Option<&Inner>> = operands.iter().map(Option::as_ref).collect();
            let results = bb::call_primitive(on, op, &operands, &params).map_err(operation)?;
            Ok(store(memory, first, results))
        })?;
        Ok(made.into_iter().map(|made| self.handle(made)).collect())
    }

    fn handle(&self, (id, dtype, shape): Made) -> Handle {
        Handle(Arc::new(Allocation { id, dtype, shape, queue: self.queue.clone() }))
    }
}

/// The greatest number of results of one job.
const RESULTS: u64 = 1 << 20;

/// A tensor that a job stored in the memory.
type Made = (u64, DataType, Shape);

fn load(memory: &Memory, id: Option<u64>) -> Result<Option<Inner>, DeviceError> {
    id.map(|id| memory.get(&id).cloned().ok_or(DeviceError::Foreign(id))).transpose()
}

fn store(memory: &mut Memory, first: u64, results: impl IntoIterator<Item = Inner>) -> Vec<Made> {
    let keep = |(id, tensor): (u64, Inner)| {
        let made = (id, bb::Tensor::dtype(&tensor), Shape::from_slice(bb::Tensor::shape(&tensor)));
        memory.insert(id, tensor);
        made
    };
    (first..).zip(results).map(keep).collect()
}

fn operation(source: impl Into<BoxError>) -> DeviceError {
    DeviceError::Operation(source.into())
}

impl Backend for Device {
    type Tensor = Handle;
    type Error = DeviceError;

    bb::forward_to_call!(Self::apply);

    fn to_host(&self, x: &Handle) -> Result<TensorData, DeviceError> {
        let id = x.0.id;
        self.wait(move |on, memory| {
            let tensor = memory.get(&id).ok_or(DeviceError::Foreign(id))?;
            on.to_host(tensor).map_err(operation)
        })
    }

    /// Sends the graph to the worker and returns at once.
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, Handle>,
        attrs: BackendAttrs<'_>,
        completion: CompletionHandle<HashMap<String, Handle>, DeviceError>,
    ) -> ContractResponse<HashMap<String, Handle>, DeviceError> {
        let (response, completer) = completion.later();
        let (opsets, functions) = (attrs.opsets.to_vec(), attrs.functions.to_vec());
        let (first, queue) = (self.reserve(RESULTS), self.queue.clone());
        let job: Job = Box::new(move |on, memory| {
            let run = |memory: &mut Memory| {
                let taken = inputs.iter().map(|(name, x)| {
                    let tensor = memory.get(&x.0.id).cloned().ok_or(DeviceError::Foreign(x.0.id))?;
                    Ok((name.clone(), tensor))
                });
                let taken = taken.collect::<Result<_, DeviceError>>()?;
                let attrs = BackendAttrs::default().with_opsets(&opsets).with_functions(&functions);
                let (names, results): (Vec<String>, Vec<Inner>) =
                    on.execute(&graph, taken, attrs).map_err(operation)?.into_iter().unzip();
                let made = store(memory, first, results).into_iter();
                let handle = |(id, dtype, shape)| {
                    Handle(Arc::new(Allocation { id, dtype, shape, queue: queue.clone() }))
                };
                Ok(names.into_iter().zip(made.map(handle)).collect())
            };
            completer.complete(run(memory));
        });
        // If the worker has ended, the job and its completer are dropped, which reports an error to the
        // caller.
        let _gone = self.queue.send(job);
        response
    }
}
