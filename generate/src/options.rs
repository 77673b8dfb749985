//! Options of opening a model and of generating text.

use crate::Error;
use bb::DataType;

/// How weights of few bits are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Products {
    /// As floats: exact except for the rounding of floats.
    Floats,
    /// As integers, where a backend can: the left operand is rounded to 8 bits by blocks, as llama.cpp does.
    #[default]
    Integers,
}

/// How caches of GGUF models keep keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CacheType {
    /// As they are computed.
    #[default]
    F32,
    /// Rounded to halves, so that caches take half of the memory. Numbers beyond 65504 become infinite.
    F16,
    /// Rounded to integers of 8 bits, so that caches take little more than a quarter of the memory. The key, or the value, of a position
    /// and a head has its own scale, an `f32`, which is its greatest magnitude divided by 127; halves are rounded to even. If one of its
    /// elements is infinite or NaN, all become NaN, so that the next logits are an error.
    ///
    /// Source: vLLM's `int8_per_token_head`.
    I8,
}

impl CacheType {
    /// The types in the order of their sizes, the greatest first.
    pub const ALL: [CacheType; 3] = [CacheType::F32, CacheType::F16, CacheType::I8];

    /// Returns the name: `f32`, `f16` or `i8`.
    pub fn name(self) -> &'static str {
        self.dtype().name()
    }

    /// Finds a type by its name.
    pub fn from_name(name: &str) -> Option<CacheType> {
        Self::ALL.into_iter().find(|cache| cache.name() == name)
    }

    /// Returns the type of the elements.
    pub(crate) fn dtype(self) -> DataType {
        match self {
            CacheType::F32 => DataType::F32,
            CacheType::F16 => DataType::F16,
            CacheType::I8 => DataType::I8,
        }
    }
}

/// How a model is opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The greatest number of tokens of a sequence, at most the context length that the model was trained for. Without it, 8192.
    pub context: Option<usize>,
    /// How weights of few bits of a GGUF file are multiplied.
    pub products: Products,
    /// How the caches of a GGUF model keep keys and values.
    pub cache: CacheType,
    /// Returns the seconds since 1970, for templates. Without it, templates use the system's clock. On targets without a clock, as in a
    /// browser, templates have no function that returns the time.
    pub clock: Option<fn() -> u64>,
}

impl OpenOptions {
    /// Bounds the tokens of a sequence.
    #[must_use]
    pub fn with_context(mut self, context: usize) -> OpenOptions {
        self.context = Some(context);
        self
    }

    /// Sets how weights of few bits are multiplied.
    #[must_use]
    pub fn with_products(mut self, products: Products) -> OpenOptions {
        self.products = products;
        self
    }

    /// Sets how caches keep keys and values.
    #[must_use]
    pub fn with_cache(mut self, cache: CacheType) -> OpenOptions {
        self.cache = cache;
        self
    }

    /// Sets the clock of templates, which returns the seconds since 1970.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> u64) -> OpenOptions {
        self.clock = Some(clock);
        self
    }
}

/// The greatest number of tokens with a bias, which are sorted for each token of an answer.
const BIASES: usize = 4096;

/// How a token is chosen. The default takes the most probable one.
///
/// In this order: `bias` is added to logits, the penalties are subtracted, logits are divided by `temperature`, and tokens are left out by
/// `top_k`, `typical`, `top_p` and `min_p`, each of the probabilities that the ones before it leave.
///
/// Source: the samplers of Hugging Face Transformers; OpenAI's penalties and bias.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sampling {
    /// The divisor of the logits. 0 takes the most probable token.
    pub temperature: f64,
    /// How many of the most probable tokens may be drawn; 0 for all.
    pub top_k: usize,
    /// The probability that the most probable tokens reach together; 1 for all.
    pub top_p: f64,
    /// The least probability of a token, relative to the most probable one; 0 for all.
    pub min_p: f64,
    /// The probability that the tokens reach together whose surprise is nearest to the mean; 1 for all.
    pub typical: f64,
    /// The divisor of positive logits, and the factor of the others, for tokens that occurred already; 1 for none.
    pub repetition_penalty: f64,
    /// The amount subtracted from a logit if the token was generated.
    pub presence_penalty: f64,
    /// The amount subtracted from a logit for each time that the token was generated.
    pub frequency_penalty: f64,
    /// How many of the last tokens the repetition penalty counts; 0 for all.
    pub penalty_last: usize,
    /// Tokens with the amounts added to their logits.
    pub bias: Vec<(u32, f64)>,
    /// The seed; equal seeds draw equal tokens. Without one, each generation draws others.
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
    /// Compares each option with its range.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for the first that is out of it.
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

/// Options of a generation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The greatest number of tokens that are generated.
    pub tokens: usize,
    /// Texts that end the generation. They are not part of it. There are at most 64, with 65536 bytes in all, and none is longer than the
    /// longest answer.
    pub stop: Vec<String>,
    /// Whether tokens that end a text, for example `<|im_end|>`, are ignored.
    pub ignore_end: bool,
    /// The grammar that constrains the text. Only tokens that it allows are chosen, a token that ends a text is possible where the grammar
    /// may end, and the generation ends when nothing can follow.
    #[cfg(feature = "grammar")]
    pub grammar: Option<crate::Grammar>,
    /// The number of most probable tokens whose log-probabilities each piece reports.
    pub log_probabilities: Option<usize>,
    /// How many tokens of a prompt are run at once; 0 for all.
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
