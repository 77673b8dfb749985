//! `cast`. All backends can share this code: [`bb::ir::convert`] converts host tensors.

use crate::tensor::{from_host, to_host};
use crate::{Error, Tensor};
use bb::ir::convert::{self, Rounding};
use bb::{DataType, RoundMode, RunOptions, Tensor as _};

pub(crate) fn cast(x: &Tensor, to: DataType, saturate: bool, round_mode: RoundMode) -> Result<Tensor, Error> {
    if x.dtype() == to {
        return Ok(x.clone());
    }
    let host = to_host(x)?;
    let rounding = Rounding { saturate, mode: round_mode };
    from_host(&RunOptions::paced(|| convert::cast(&host, to, rounding))??)
}
