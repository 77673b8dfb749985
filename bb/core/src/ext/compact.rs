//! The form of operations in saved models.

use crate::trace::Operation;
use bb_ir::Error;
use bb_ir::compact::{Compact, Reader, Writer};
use bb_ir::op::{Family, OpSpec};

/// The families, by their numbers in files.
const FAMILIES: [Family; 11] = [
    Family::Primitive,
    Family::Nn,
    Family::Llm,
    Family::Image,
    Family::Scalar,
    Family::Create,
    Family::Index,
    Family::Bits,
    Family::Ml,
    Family::Quant,
    Family::Train,
];

/// The number of all vendors' families in files; the domain follows.
const VENDOR: u8 = 128;

/// An operation is its family and its position there, or a vendor's domain and the name. A computation on the host has no number,
/// and no saved plan has one.
impl Compact for Operation {
    fn write(&self, to: &mut Writer) {
        let Operation::Row(spec) = self else { return to.bytes(&[u8::MAX]) };
        if let Family::Vendor(domain) = spec.family {
            to.bytes(&[VENDOR]);
            domain.to_owned().write(to);
            return spec.name.to_owned().write(to);
        }
        let family = FAMILIES.iter().position(|family| *family == spec.family);
        to.bytes(&[family.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)]);
        spec.index.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Operation, Error> {
        let number = from.byte()?;
        if number == VENDOR {
            let (domain, name) = (String::read(from)?, String::read(from)?);
            let found = super::vendor::find(&domain, &name);
            return found
                .map(|operation| Operation::Row(operation.spec()))
                .ok_or_else(|| from.fault("an operation of a linked vendor"));
        }
        let family = FAMILIES.get(usize::from(number)).copied();
        let family = family.ok_or_else(|| from.fault("a family of operations"))?;
        let index = usize::from(u16::read(from)?);
        let spec: Option<&'static OpSpec> = super::row(family, index);
        spec.map(Operation::Row).ok_or_else(|| from.fault("an operation of the family"))
    }
}
