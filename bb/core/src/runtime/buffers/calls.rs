//! Operations whose operands and results are buffers.

use super::{BufferId, Buffers};
use crate::runtime::CallsRows;
use crate::service::BufferFault;
use crate::{Error, Outputs, Value};
use bb_ir::Shape;
use bb_ir::op::{OpSpec, Param};
use smallvec::SmallVec;

/// Shows an element type and a shape.
fn shown(value: &Value) -> String {
    format!("{}{:?}", value.dtype(), Shape::from_slice(value.shape()))
}

impl Buffers {
    /// Calls an operation of any family on buffers, with operands and parameters in the order of its row, and writes its results
    /// into existing buffers. An operand may also be a result.
    ///
    /// The backend computes in the memory of the buffer where it has a kernel for that and nothing else holds the memory. Else
    /// the buffer gets the memory of the result; one that was allocated with an alignment keeps its own, and the result is copied
    /// into it. [`bb::operation`](crate::operation()) finds a row by name.
    ///
    /// # Errors
    ///
    /// [`BufferFault::Output`] if a result has another element type or shape than its buffer, and [`Error::Results`] if there are more
    /// or fewer results than buffers: then no buffer has changed. [`Error::BufferFault`] for freed buffers; the operation's own
    /// errors.
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
        // An operand that is also a result would hold the memory that the result is copied into.
        drop(operands);
        drop(values);
        for (result, &id) in results.into_iter().zip(out) {
            self.set(id, result)?;
        }
        Ok(())
    }

    /// Stores a tensor of the buffer's own element type and shape in a buffer.
    fn set(&self, id: BufferId, result: Value) -> Result<(), Error> {
        let replaced = self.with(id, |place| match place.placed {
            true => Err(result),
            // The tensor from before is dropped after the lock is released.
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
