//! Options for opening a model and for generating text.

use crate::Error;
use bb::DataType;

/// How matrix products with weights of few bits are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Products {
    /// As floats, which is exact except for rounding errors.
    Floats,
    /// As integers, if the backend supports this. The left operand is rounded to 8 bits by blocks, as in llama.cpp.
    #[default]
    Integers,
}

/// How caches of GGUF models store keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CacheType {
    /// In `f32`, as they are computed.
    #[default]
    F32,
    /// Rounded to `f16`, which halves the memory of caches. Numbers beyond 65504 become infinite.
    F16,
    /// Rounded to 8-bit integers, so that caches take little more than a quarter of the memory. The key of each position and head has its
    /// own scale, and so has the value. The scale is an `f32`: the maximum magnitude divided by 127. Ties are rounded to even. If an
    /// element is infinite or NaN, all elements become NaN, so that the next logits are an error.
    ///
    /// Source: vLLM's `int8_per_token_head`.
    I8,
}

impl CacheType {
    /// The types in the order of their sizes, the largest first.
    pub const ALL: [CacheType; 3] = [CacheType::F32, CacheType::F16, CacheType::I8];

    /// Returns the name: `f32`, `f16` or `i8`.
    pub fn name(self) -> &'static str {
        self.dtype().name()
    }

    /// Finds a type by its name.
    pub fn from_name(name: &str) -> Option<CacheType> {
        Self::ALL.into_iter().find(|cache| cache.name() == name)
    }

    /// Returns the element type.
    pub(crate) fn dtype(self) -> DataType {
        match self {
            CacheType::F32 => DataType::F32,
            CacheType::F16 => DataType::F16,
            CacheType::I8 => DataType::I8,
        }
    }
}

/// Options for opening a model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The maximum number of tokens of a sequence. It is limited to the context length that the model was trained for. The default is
    /// 8192.
    pub context: Option<usize>,
    /// How matrix products with weights of few bits of a GGUF file are computed.
    pub products: Products,
    /// How the caches of a GGUF model store keys and values.
    pub cache: CacheType,
    /// The clock for templates, which returns the seconds since 1970. The default is the system's clock. If the target has no clock, as in
    /// a browser, templates have no function that returns the time.
    pub clock: Option<fn() -> u64>,
}

impl OpenOptions {
    /// Limits the number of tokens of a sequence.
    #[must_use]
    pub fn with_context(mut self, context: usize) -> OpenOptions {
        self.context = Some(context);
        self
    }

    /// Sets how matrix products with weights of few bits are computed.
    #[must_use]
    pub fn with_products(mut self, products: Products) -> OpenOptions {
        self.products = products;
        self
    }

    /// Sets how caches store keys and values.
    #[must_use]
    pub fn with_cache(mut self, cache: CacheType) -> OpenOptions {
        self.cache = cache;
        self
    }

    /// Sets the clock for templates, which returns the seconds since 1970.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> u64) -> OpenOptions {
        self.clock = Some(clock);
        self
    }
}

/// The maximum number of tokens with a bias. It is limited because they are sorted for each token of an answer.
const BIASES: usize = 4096;

/// How a token is chosen. The default chooses the most probable token.
///
/// The steps are, in this order: `bias` is added to the logits; the penalties are applied; the logits are divided by `temperature`;
/// `top_k`, `typical`, `top_p` and `min_p` exclude tokens, each by the probabilities that remain after the previous step.
///
/// Source: the samplers of Hugging Face Transformers; OpenAI's penalties and bias.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sampling {
    /// The divisor of the logits. 0 means that the most probable token is chosen.
    pub temperature: f64,
    /// The number of most probable tokens that may be drawn; 0 for all.
    pub top_k: usize,
    /// Only the most probable tokens that together reach this probability are kept; 1 for all.
    pub top_p: f64,
    /// The minimum probability of a token, relative to the most probable token; 0 for all.
    pub min_p: f64,
    /// Only the tokens whose surprise (negative log-probability) is nearest to the mean surprise, and that together reach this
    /// probability, are kept; 1 for all.
    pub typical: f64,
    /// The penalty for tokens that have already occurred: positive logits are divided by it, and negative logits are multiplied by it; 1
    /// for none.
    pub repetition_penalty: f64,
    /// The amount that is subtracted from the logit of a token that was generated before.
    pub presence_penalty: f64,
    /// The amount that is subtracted from the logit of a token for each time that it was generated.
    pub frequency_penalty: f64,
    /// The number of last tokens for the repetition penalty; 0 for all.
    pub penalty_last: usize,
    /// Tokens, and the amounts that are added to their logits.
    pub bias: Vec<(u32, f64)>,
    /// The seed. Equal seeds draw equal tokens. Without a seed, each generation draws different tokens.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical: 1.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            penalty_last: 0,
            bias: Vec::new(),
            seed: None,
        }
    }
}

impl Sampling {
    /// Checks that each option is in its range.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for the first option that is out of range.
    pub fn check(&self) -> Result<(), Error> {
        let count = self.bias.len();
        if count > BIASES {
            let (option, expected) = ("bias", "at most 4096 tokens");
            return Err(Error::Option { option, found: count as f64, expected });
        }
        let share = |x: f64| (0.0..=1.0).contains(&x);
        let checks = [
            ("temperature", self.temperature, self.temperature >= 0.0, "0 or more"),
            ("top_p", self.top_p, share(self.top_p), "0 to 1"),
            ("min_p", self.min_p, share(self.min_p), "0 to 1"),
            ("typical", self.typical, share(self.typical), "0 to 1"),
            ("repetition_penalty", self.repetition_penalty, self.repetition_penalty > 0.0, "more than 0"),
            ("presence_penalty", self.presence_penalty, true, "a number"),
            ("frequency_penalty", self.frequency_penalty, true, "a number"),
        ];
        let biases = self.bias.iter().map(|&(_, bias)| ("bias", bias, !bias.is_nan(), "a number"));
        for (option, found, fits, expected) in checks.into_iter().chain(biases) {
            if !fits || (option != "bias" && !found.is_finite()) {
                return Err(Error::Option { option, found, expected });
            }
        }
        Ok(())
    }
}

/// Options for generating text.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The maximum number of generated tokens.
    pub tokens: usize,
    /// Strings that end the generation. They are not part of the generated text. At most 64 strings with 65536 bytes in total are allowed,
    /// and none may be longer than the longest answer.
    pub stop: Vec<String>,
    /// Whether end tokens, for example `<|im_end|>`, are ignored.
    pub ignore_end: bool,
    /// The grammar that constrains the text. Only tokens that it allows are chosen. An end token is allowed if the text is complete. The
    /// generation ends when nothing can follow.
    #[cfg(feature = "grammar")]
    pub grammar: Option<crate::Grammar>,
    /// The number of most probable tokens whose log-probabilities each piece reports.
    pub log_probabilities: Option<usize>,
    /// The number of prompt tokens that are run in one pass; 0 for all.
    pub chunk: usize,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            sampling: Sampling::default(),
            tokens: 256,
            stop: Vec::new(),
            ignore_end: false,
            #[cfg(feature = "grammar")]
            grammar: None,
            log_probabilities: None,
            chunk: 512,
        }
    }
}
