//! The inputs and outputs of a served model.

use crate::datatype;
use crate::error::{Error, PortFault};
use bb::{DataType, Port};
use bb_ir::graph::{Dim, ValueType};

/// An input or an output.
#[derive(Debug)]
pub(crate) struct TensorPort {
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    pub(crate) datatype: &'static str,
    /// The extents. `None` if the rank is unknown, which is allowed only for outputs.
    pub(crate) shape: Option<Vec<Dim>>,
    pub(crate) optional: bool,
}

impl TensorPort {
    pub(crate) fn new(model: &str, side: &'static str, port: &Port) -> Result<TensorPort, Error> {
        let refuse = |fault| Error::Port {
            model: model.to_owned(),
            side,
            port: port.name.clone(),
            ty: Box::new(port.ty.clone()),
            fault,
        };
        let ValueType::Tensor { dtype, shape } = &port.ty else { return Err(refuse(PortFault::Kind)) };
        let datatype = datatype::name(*dtype).ok_or_else(|| refuse(PortFault::DataType))?;
        if shape.is_none() && side == "input" {
            return Err(refuse(PortFault::Rank));
        }
        Ok(TensorPort {
            name: port.name.clone(),
            dtype: *dtype,
            datatype,
            shape: shape.clone(),
            optional: port.optional,
        })
    }

    /// Returns the extents as the protocol writes them: -1 for an open extent, and a single -1 if the rank is unknown.
    pub(crate) fn extents(&self) -> Vec<i64> {
        let extent = |dim: &Dim| match dim {
            Dim::Known(n) => i64::try_from(*n).unwrap_or(-1),
            Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => -1,
        };
        self.shape.as_ref().map_or_else(|| vec![-1], |shape| shape.iter().map(extent).collect())
    }

    pub(crate) fn shape_text(&self) -> String {
        let dims = self.shape.iter().flatten().map(Dim::to_string).collect::<Vec<_>>();
        format!("[{}]", dims.join(", "))
    }
}
