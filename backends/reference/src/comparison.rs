//! Comparison and selection: `equal greater less` and `where`.

use crate::elementwise::{binary, ternary};
use crate::{Error, Tensor};
use bb::ir::infer;
use bb::{DataType, Primitive, Tensor as _};

pub(crate) fn equal(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    infer::dtype(Primitive::Equal, &[a.dtype(), b.dtype()], &[])?;
    equatable!("equal", a.dtype(), T => {
        let truth = binary("equal", a.array::<T>(a.dtype())?, b.array::<T>(a.dtype())?, |a, b| a == b)?;
        Ok(Tensor::new(DataType::Bool, truth))
    })
}

pub(crate) fn greater(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    infer::dtype(Primitive::Greater, &[a.dtype(), b.dtype()], &[])?;
    numbers!("greater", a.dtype(), T => {
        let truth = binary("greater", a.array::<T>(a.dtype())?, b.array::<T>(a.dtype())?, |a, b| a > b)?;
        Ok(Tensor::new(DataType::Bool, truth))
    })
}

pub(crate) fn less(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    infer::dtype(Primitive::Less, &[a.dtype(), b.dtype()], &[])?;
    numbers!("less", a.dtype(), T => {
        let truth = binary("less", a.array::<T>(a.dtype())?, b.array::<T>(a.dtype())?, |a, b| a < b)?;
        Ok(Tensor::new(DataType::Bool, truth))
    })
}

pub(crate) fn select(condition: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Where, &[condition.dtype(), x.dtype(), y.dtype()], &[])?;
    let condition = condition.array::<bool>(DataType::Bool)?;
    any!("where", dtype, T => {
        let chosen = ternary("where", condition, x.array::<T>(dtype)?, y.array::<T>(dtype)?, |&condition, x, y| {
            Clone::clone(if condition { x } else { y })
        })?;
        Ok(Tensor::new(dtype, chosen))
    })
}
