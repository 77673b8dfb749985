//! Calls operations whose operands and results are buffers.

use super::{BufferId, Buffers};
use crate::runtime::CallsRows;
use crate::service::BufferFault;
use crate::{Error, Outputs, Value};
use bb_ir::Shape;
use bb_ir::op::{OpSpec, Param};
use smallvec::SmallVec;

/// Formats the element type and the shape of a value.
fn shown(value: &Value) -> String {
    format!("{}{:?}", value.dtype(), Shape::from_slice(value.shape()))
}

impl Buffers {
    /// Calls an operation of any family on buffers and writes its results into existing buffers. Operands and
    /// parameters are in the order of the operation's table row. An operand may also be a result.
    ///
    /// If the backend has a kernel that writes into existing memory, and no other handle shares the memory of the
    /// result buffer, the backend computes directly in that memory. Otherwise the buffer takes over the memory of the
    /// result; a buffer with an alignment keeps its own memory, and the result is copied into it.
    /// [`bb::operation`](crate::operation()) finds an operation by name.
    ///
    /// # Errors
    ///
    /// [`BufferFault::Output`] if a result has another element type or shape than its buffer; [`Error::Results`] if the
    /// numbers of results and buffers differ. In both cases no buffer has changed. [`Error::BufferFault`] for freed
    /// buffers; the operation's own errors.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// use bb::{DataType, services::Buffers};
    /// let buffers = Buffers::new(bb::backend("cpu")?);
    /// let [x, y] = [buffers.alloc(DataType::I32, &[1])?, buffers.alloc(DataType::I32, &[1])?];
    /// buffers.write(x, &3i32.to_le_bytes())?;
    /// buffers.call(bb::operation("mul")?, &[Some(x), Some(x)], &[], &[y])?;
    /// assert_eq!(buffers.read(y)?, 9i32.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<BufferId>],
        params: &[Param<'_>],
        out: &[BufferId],
    ) -> Result<(), Error> {
        let find = |id: &Option<BufferId>| id.map(|id| self.value(id)).transpose();
        let values: SmallVec<[Option<Value>; 4]> = inputs.iter().map(find).collect::<Result<_, Error>>()?;
        let operands: SmallVec<[Option<&Value>; 4]> = values.iter().map(Option::as_ref).collect();
        if let &[only] = out {
            let mut taken = self.take(only)?;
            if let Some(value) = &mut taken.value
                && self.on.runtime().call_into(op, &operands, params, value)?
            {
                return Ok(());
            }
        }
        let results: Outputs<Value> = self.on.call_row(op, &operands, params)?;
        if results.len() != out.len() {
            let (expected, got) = (out.len(), results.len());
            return Err(Error::Results { op: op.method.to_owned(), expected, got });
        }
        for (index, (result, &id)) in results.iter().zip(out).enumerate() {
            let own = self.value(id)?;
            if (own.dtype(), own.shape()) != (result.dtype(), result.shape()) {
                let (expected, got) = (shown(&own), shown(result));
                return Err(Error::BufferFault(BufferFault::Output { index, expected, got }));
            }
        }
        // If an operand is also a result, its handle would prevent copying the result into the same memory.
        drop(operands);
        drop(values);
        for (result, &id) in results.into_iter().zip(out) {
            self.set(id, result)?;
        }
        Ok(())
    }

    /// Stores a result in a buffer that has the same element type and shape.
    fn set(&self, id: BufferId, result: Value) -> Result<(), Error> {
        let replaced = self.with(id, |place| match place.placed {
            true => Err(result),
            // The previous tensor is dropped after the lock is released.
            false => Ok(place.value.replace(result)),
        })?;
        match replaced {
            Ok(_dropped) => Ok(()),
            Err(result) => {
                let host = self.on.to_host(&result)?;
                self.write_at(id, 0, host.unaligned_bytes()?)
            }
        }
    }
}
