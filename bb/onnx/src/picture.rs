//! `ImageDecoder`, which runs on the host because the file determines the extents of the image.
//!
//! The linked decoders ([`bb_ir::picture`]) decode images. Without a linked decoder, the operator returns
//! an error that says so.

use super::rows::operators;
use bb_core::error::{Library, NodePart};
use bb_core::operator::{Call, OpOutputs, one};
use bb_core::{Error, RunOptions};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::picture::{Allowance, PictureDecoder, PictureError, PixelFormat, decoders};
use bb_ir::{BoxError, DataType, TensorData};

operators! {
    "" {
        ImageDecoder => Host(image_decoder), infer: By(image_decoder_types);
    }
}

/// Returns the description of the missing decoder, if none is linked.
pub(super) fn unlinked() -> Option<Library> {
    let library = Library { what: "a decoder of pictures", feature: "image", package: "bb_pictures" };
    decoders().is_empty().then_some(library)
}

/// Infers the type of `ImageDecoder`: three channels, or one for `Grayscale`. The file determines the other
/// extents.
fn image_decoder_types(at: NodeFacts<'_>) -> Option<Types> {
    let channels = if at.text("pixel_format", "RGB")? == "Grayscale" { 1 } else { 3 };
    at.one(Some(DataType::U8), Some(vec![Dim::Unknown, Dim::Unknown, Dim::Known(channels)]))
}

/// `ImageDecoder`. As ONNX defines, data in an unknown format decode to an image without pixels.
pub(super) fn image_decoder(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    decoded_by(decoders(), call)
}

fn decoded_by(
    decoders: &[&PictureDecoder],
    call: &Call<'_, TensorData>,
) -> Result<OpOutputs<TensorData>, Error> {
    let pixels = match call.text_or("pixel_format", "RGB")? {
        "RGB" => PixelFormat::Rgb,
        "BGR" => PixelFormat::Bgr,
        "Grayscale" => PixelFormat::Grayscale,
        other => {
            let problem = format!("is `{other}`, expected `RGB`, `BGR` or `Grayscale`");
            return Err(call.wrong("pixel_format", problem));
        }
    };
    let file = call.input(0)?.as_slice::<u8>()?;
    if decoders.is_empty() {
        let problem = "needs a decoder of pictures: the feature `image` of `bb`, or `use bb_pictures as _;`";
        return Err(call.wrong(NodePart::Operand(0), problem));
    }
    for decoder in decoders {
        let decoded = (decoder.decode)(file, pixels, &OfRun(call));
        let decoded = decoded.map_err(|error| failed(call, decoder, error))?;
        if let Some(picture) = decoded {
            let shape = [picture.height, picture.width, pixels.channels()];
            return Ok(one(TensorData::adopt(DataType::U8, &shape, picture.bytes.into())?));
        }
    }
    Ok(one(TensorData::new::<u8>(&[0, 0, pixels.channels()], &[])?))
}

/// The limits of the run that a call belongs to.
struct OfRun<'a>(&'a Call<'a, TensorData>);

impl Allowance for OfRun<'_> {
    fn check(&self) -> Result<(), BoxError> {
        Ok(RunOptions::check_current()?)
    }

    fn bound(&self, dtype: DataType, shape: &[usize]) -> Result<(), BoxError> {
        Ok(self.0.bound(dtype, shape)?)
    }
}

/// Converts a decoder's error. If a limit of the run stopped the decoder, this is the run's own error.
fn failed(call: &Call<'_, TensorData>, decoder: &PictureDecoder, error: PictureError) -> Error {
    let error = match error {
        PictureError::Refused { problem } => return call.wrong(NodePart::Operand(0), problem),
        PictureError::Ir(error) => return error.into(),
        PictureError::Ended(error) => error,
        other => other.into(),
    };
    match error.downcast::<Error>() {
        Ok(error) => *error,
        // Only a decoder that violates the interface returns another error.
        Err(source) => Error::Kernel { backend: decoder.name, op: "ImageDecoder", source },
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb_core::CancelToken;
    use bb_ir::graph::Node;
    use bb_ir::picture::Picture;

    /// Decodes a file of three bytes with these decoders. `value_bytes` limits the size of the result.
    fn with(decoders: &[&PictureDecoder], value_bytes: usize) -> Result<OpOutputs<TensorData>, Error> {
        let node = Node { op_type: "ImageDecoder".to_owned(), opset: 20, ..Node::default() };
        let inputs = [Some(TensorData::new(&[3], &[1u8, 2, 3]).unwrap())];
        decoded_by(decoders, &Call::new(&node, &inputs).within(value_bytes))
    }

    /// A decoder that reads any file as the pixels of an image of width 1.
    const PLAIN: PictureDecoder = PictureDecoder {
        name: "plain",
        decode: |file, pixels, allowance| {
            allowance.check().map_err(PictureError::Ended)?;
            let height = file.len() / pixels.channels();
            allowance.bound(DataType::U8, &[height, 1, pixels.channels()]).map_err(PictureError::Ended)?;
            Ok(Some(Picture { height, width: 1, bytes: file.to_vec() }))
        },
    };
    const NONE: PictureDecoder = PictureDecoder { name: "none", decode: |_, _, _| Ok(None) };

    #[test]
    fn without_a_decoder_the_error_says_what_to_write() {
        let error = with(&[], 100).unwrap_err();
        let Error::Operator { op, part: NodePart::Operand(0), problem } = error else { panic!("{error:?}") };
        assert_eq!(op, "ImageDecoder");
        for text in ["the feature `image` of `bb`", "`use bb_pictures as _;`"] {
            assert!(problem.contains(text), "{problem}");
        }
    }

    #[test]
    fn the_first_decoder_that_knows_the_file_counts() {
        let shape =
            |decoders: &[&PictureDecoder]| with(decoders, 100).unwrap()[0].clone().unwrap().shape().to_vec();
        assert_eq!(shape(&[&NONE, &PLAIN]), [1, 1, 3]);
        assert_eq!(shape(&[&NONE]), [0, 0, 3]);
    }

    #[test]
    fn the_errors_of_a_run_come_back_as_they_are() {
        assert!(matches!(with(&[&PLAIN], 2), Err(Error::Ir(bb_ir::Error::TooLarge { limit: 2, .. }))));
        let token = CancelToken::new();
        token.cancel();
        let options = RunOptions::default().with_cancel(&token);
        assert!(matches!(options.within(|| with(&[&PLAIN], 100)), Err(Error::Cancelled)));
    }

    #[test]
    fn errors_of_a_decoder_stay_what_they_are() {
        let refuses = PictureDecoder {
            name: "refuses",
            decode: |_, _, _| Err(PictureError::Refused { problem: "is torn".to_owned() }),
        };
        let memory = PictureDecoder {
            name: "memory",
            decode: |_, _, _| Err(bb_ir::Error::Memory { op: "ImageDecoder", bytes: 7 }.into()),
        };
        let other =
            PictureDecoder { name: "other", decode: |_, _, _| Err(PictureError::Ended("other".into())) };
        assert!(
            matches!(with(&[&refuses], 100), Err(Error::Operator { problem, .. }) if problem == "is torn")
        );
        assert!(matches!(with(&[&memory], 100), Err(Error::Ir(bb_ir::Error::Memory { bytes: 7, .. }))));
        assert!(matches!(with(&[&other], 100), Err(Error::Kernel { backend: "other", .. })));
    }
}
