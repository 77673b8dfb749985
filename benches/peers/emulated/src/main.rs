//! Runs a model on RTen, or a product on OpenBLAS, a number of times, so that its instructions can be counted:
//! `emulated rten MODEL RUNS`, `emulated openblas LIBRARY MxKxN RUNS`.
//!
//! `bash tests/instructions aarch64 peers` calls it under QEMU.

use rten::{DataType, Dimension, Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueType};
use std::error::Error;
use std::ffi::c_int;
use std::hint::black_box;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["rten", model, runs] => rten(model, runs.parse()?),
        ["openblas", library, extents, runs] => openblas(library, extents, runs.parse()?),
        _ => Err("`emulated rten MODEL RUNS` or `emulated openblas LIBRARY MxKxN RUNS`".into()),
    }
}

/// Runs a model on one thread, with weights packed before.
fn rten(model: &str, runs: usize) -> Result<(), Box<dyn Error>> {
    let model = ModelOptions::with_all_ops().prepack_weights(true).load_file(model)?;
    let inputs: Vec<(NodeId, Value)> = model
        .input_ids()
        .iter()
        .map(|&id| Ok((id, input(&model, id)?)))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let outputs = model.output_ids().to_vec();
    let options = RunOptions::default().with_thread_pool(Some(Arc::new(ThreadPool::with_num_threads(1))));
    for _ in 0..runs {
        let inputs = inputs.iter().map(|(id, value)| (*id, value.into())).collect();
        black_box(model.run(inputs, &outputs, Some(options.clone()))?);
    }
    Ok(())
}

/// Makes the elements of an input.
fn input(model: &Model, id: NodeId) -> Result<Value, Box<dyn Error>> {
    let info = model.node_info(id).ok_or("an input without a description")?;
    let extent = |extent| match extent {
        Dimension::Fixed(extent) => Ok(extent),
        Dimension::Symbolic(name) => Err(format!("an extent `{name}`, which no input tells")),
    };
    let shape = info
        .shape()
        .ok_or("an input without a shape")?
        .into_iter()
        .map(extent)
        .collect::<Result<Vec<_>, _>>()?;
    let numbers = 0..shape.iter().product::<usize>();
    Ok(match info.dtype() {
        Some(ValueType::Tensor(DataType::Float)) => {
            Value::from_shape(&shape, numbers.map(|i| (i % 23) as f32 / 23.0 - 0.4).collect::<Vec<f32>>())?
        }
        Some(ValueType::Tensor(DataType::UInt8)) => {
            Value::from_shape(&shape, numbers.map(|i| (i % 251) as u8).collect::<Vec<u8>>())?
        }
        Some(ValueType::Tensor(DataType::Int8)) => {
            Value::from_shape(&shape, numbers.map(|i| (i % 127) as i8).collect::<Vec<i8>>())?
        }
        other => return Err(format!("an input of {other:?}").into()),
    })
}

/// `cblas_sgemm`: order, whether each operand is transposed, extents, a factor, operands with distances of rows, a factor, the result.
type Product = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    f32,
    *mut f32,
    c_int,
);

/// Multiplies matrices of `f32`; the extents may begin with a number of products.
fn openblas(library: &str, extents: &str, runs: usize) -> Result<(), Box<dyn Error>> {
    let extents = extents.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let (batch, [m, k, n]) = match *extents {
        [m, k, n] => (1, [m, k, n]),
        [batch, m, k, n] => (batch, [m, k, n]),
        _ => return Err("expected three extents, or four".into()),
    };
    // SAFETY: loading runs what the library does when it is loaded, and no more.
    let library = unsafe { libloading::Library::new(library)? };
    // SAFETY: the function has this signature, under either name.
    let product = unsafe {
        library.get::<Product>(b"scipy_cblas_sgemm").or_else(|_| library.get::<Product>(b"cblas_sgemm"))?
    };
    let numbers = |count: usize| -> Vec<f32> { (0..count).map(|i| (i % 23) as f32 / 23.0 - 0.4).collect() };
    let (a, b, mut c) = (numbers(batch * m * k), numbers(batch * k * n), vec![0.0; batch * m * n]);
    let (rows, depth, columns) = (m as c_int, k as c_int, n as c_int);
    for _ in 0..runs {
        for i in 0..batch {
            let (a, b, c) = (&a[i * m * k..], &b[i * k * n..], &mut c[i * m * n..]);
            // SAFETY: the operands and the result have these extents. 101 is the order of rows, 111 a matrix as it is.
            unsafe {
                product(
                    101,
                    111,
                    111,
                    rows,
                    columns,
                    depth,
                    1.0,
                    a.as_ptr(),
                    depth,
                    b.as_ptr(),
                    columns,
                    0.0,
                    c.as_mut_ptr(),
                    columns,
                );
            }
        }
        black_box(&mut c);
    }
    Ok(())
}
