//! The function that calls native operations.

use super::open::text;
use super::primitives::round;
use super::tensors::{Operands, dtype, failed, give, host, operand};
use crate::abi::{Data, Failure, Items, Parameter, ParameterKind, Raw, RawTensor, Slot, Status, Text};
use crate::failure::{Failed, guarded};
use bb_core::{ErrorKind, InnerBackend};
use bb_ir::op::{OpSpec, Param, ParamKind};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Reads the items of a parameter that is a list.
///
/// # Safety
///
/// The parameter's items have the type `T`.
unsafe fn list<'a, T>(of: &Parameter) -> &'a [T] {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { Items { items: of.items.cast(), count: of.count }.slice() }
}

/// Converts a parameter that must have the kind `kind`.
fn param<'a>(row: &OpSpec, name: &str, kind: ParamKind, of: &Parameter) -> Result<Param<'a>, Failed> {
    let nothing = of.kind == ParameterKind::Nothing as i32;
    let wrong = || {
        let text = format!(
            "`{}` of `{}` expects {}, got a parameter of kind {}",
            name,
            row.method,
            kind.name(),
            of.kind
        );
        Failed::new(ErrorKind::WrongInput, text)
    };
    let is = |expected: ParameterKind| if of.kind == expected as i32 { Ok(()) } else { Err(wrong()) };
    use ParameterKind as K;
    let small = || i32::try_from(of.integer).map_err(|_| wrong());
    let element_type = || small().and_then(dtype);
    Ok(match kind {
        ParamKind::OptInt if nothing => Param::OptInt(None),
        ParamKind::OptFloat if nothing => Param::OptFloat(None),
        ParamKind::OptType if nothing => Param::OptType(None),
        ParamKind::Int => is(K::Integer).map(|()| Param::Int(of.integer))?,
        ParamKind::OptInt => is(K::Integer).map(|()| Param::OptInt(Some(of.integer)))?,
        ParamKind::Float => is(K::Number).map(|()| Param::Float(of.number))?,
        ParamKind::OptFloat => is(K::Number).map(|()| Param::OptFloat(Some(of.number)))?,
        ParamKind::Bool => is(K::Integer).map(|()| Param::Bool(of.integer != 0))?,
        // SAFETY: here and below, the kind determines the type of the items, and the host lends them for the call.
        ParamKind::Ints => is(K::Integers).map(|()| Param::Ints(Cow::Borrowed(unsafe { list(of) })))?,
        // SAFETY: as above.
        ParamKind::Floats => is(K::Numbers).map(|()| Param::Floats(Cow::Borrowed(unsafe { list(of) })))?,
        // SAFETY: as above.
        ParamKind::Extents => is(K::Extents).map(|()| Param::Extents(Cow::Borrowed(unsafe { list(of) })))?,
        ParamKind::Type => is(K::Integer).and_then(|()| element_type()).map(Param::Type)?,
        ParamKind::OptType => {
            is(K::Integer).and_then(|()| element_type()).map(|t| Param::OptType(Some(t)))?
        }
        ParamKind::Round => is(K::Integer).and_then(|()| small()).and_then(round).map(Param::Round)?,
        ParamKind::Text => {
            is(K::Text)?;
            Param::Text(Cow::Borrowed(text(Text { items: of.items.cast(), count: of.count })?))
        }
        ParamKind::Data => {
            is(K::Data)?;
            // SAFETY: as above.
            let data = unsafe { of.items.cast::<Data>().as_ref() }.ok_or_else(wrong)?;
            // SAFETY: as above.
            Param::Data(Cow::Owned(unsafe { host(data) }?))
        }
        _ => return Err(wrong()),
    })
}

/// `bb_library.native`.
pub(super) unsafe extern "C" fn native(
    backend: *mut Raw,
    name: Text,
    inputs: Items<*const RawTensor>,
    parameters: Items<Parameter>,
    results: *mut Slot,
    count: *mut usize,
    error: *mut Failure,
) -> Status {
    let body = || {
        // SAFETY: `open` created the backend, and the host lends the lists for the call.
        let (opened, inputs, given) =
            unsafe { (super::opened(backend)?, inputs.slice(), parameters.slice()) };
        let row = bb_core::operation(text(name)?).map_err(|e| Failed::of(&e))?;
        // SAFETY: the host lends tensors that this library created.
        let operands: Operands<'_> = inputs.iter().map(|&x| unsafe { operand(x) }).collect();
        let pairs = row.params.iter().zip(given);
        let params: SmallVec<[Param<'_>; 8]> =
            pairs.map(|(spec, of)| param(row, spec.name, spec.kind, of)).collect::<Result<_, _>>()?;
        let outputs = opened.erased.native(row, &operands, &params).map_err(|e| failed(&e))?;
        // SAFETY: the host lends the number for the call.
        let room = unsafe { count.read() };
        if outputs.len() > room {
            let text =
                format!("`{}` has {} results, but there is room for {room}", row.method, outputs.len());
            return Err(Failed::new(ErrorKind::Limit, text));
        }
        // SAFETY: as above.
        unsafe { count.write(outputs.len()) };
        for (at, x) in outputs.into_iter().enumerate() {
            // SAFETY: the host lends the number of slots that it passed in `count`.
            give(x, unsafe { &mut *results.add(at) });
        }
        Ok(())
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}
