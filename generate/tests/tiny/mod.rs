//! A writer of GGUF files, also of wrong ones, and a small model.
#![expect(dead_code, reason = "each program of tests uses a part")]

use bb::f16;

/// A value of the metadata.
#[derive(Debug, Clone)]
pub(crate) enum Meta {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    /// The number of a type, and the bytes behind it.
    Raw(u32, Vec<u8>),
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Meta {
    fn bytes(&self) -> Vec<u8> {
        let list = |ty: u32, count: usize, all: Vec<u8>| {
            [&ty.to_le_bytes()[..], &(count as u64).to_le_bytes(), &all].concat()
        };
        let (ty, bytes) = match self {
            Meta::U32(x) => (4, x.to_le_bytes().to_vec()),
            Meta::F32(x) => (6, x.to_le_bytes().to_vec()),
            Meta::Bool(x) => (7, vec![u8::from(*x)]),
            Meta::Text(x) => (8, text(x)),
            Meta::Texts(x) => (9, list(8, x.len(), x.iter().flat_map(|x| text(x)).collect())),
            Meta::I32s(x) => (9, list(5, x.len(), x.iter().flat_map(|x| x.to_le_bytes()).collect())),
            Meta::F32s(x) => (9, list(6, x.len(), x.iter().flat_map(|x| x.to_le_bytes()).collect())),
            Meta::Raw(ty, bytes) => (*ty, bytes.clone()),
        };
        [&ty.to_le_bytes()[..], &bytes].concat()
    }
}

#[derive(Debug, Clone)]
struct Described {
    name: String,
    extents: Vec<u64>,
    ty: u32,
    /// An offset that is said instead of the right one.
    offset: Option<u64>,
    data: Vec<u8>,
}

/// Writes a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct GgufWriter {
    keys: Vec<(String, Meta)>,
    tensors: Vec<Described>,
    pub(crate) tensors_said: Option<u64>,
    pub(crate) keys_said: Option<u64>,
}

impl GgufWriter {
    pub(crate) fn key(&mut self, key: &str, value: Meta) {
        self.keys.push((key.to_owned(), value));
    }

    pub(crate) fn replace(&mut self, key: &str, value: Meta) {
        self.keys.retain(|(name, _)| name != key);
        self.key(key, value);
    }

    pub(crate) fn tensor(&mut self, name: &str, extents: &[u64], ty: u32, data: Vec<u8>) {
        let (name, extents) = (name.to_owned(), extents.to_vec());
        self.tensors.push(Described { name, extents, ty, offset: None, data });
    }

    /// Describes a tensor without data.
    pub(crate) fn described(&mut self, name: &str, extents: &[u64], ty: u32, offset: u64) {
        let (name, extents) = (name.to_owned(), extents.to_vec());
        self.tensors.push(Described { name, extents, ty, offset: Some(offset), data: Vec::new() });
    }

    pub(crate) fn remove_tensor(&mut self, name: &str) {
        self.tensors.retain(|tensor| tensor.name != name);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(self.tensors_said.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        file.extend(self.keys_said.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            file.extend(text(key));
            file.extend(value.bytes());
        }
        let mut data = Vec::new();
        for Described { name, extents, ty, offset, data: own } in &self.tensors {
            file.extend(text(name));
            file.extend((extents.len() as u32).to_le_bytes());
            file.extend(extents.iter().flat_map(|n| n.to_le_bytes()));
            file.extend(ty.to_le_bytes());
            file.extend(offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(own);
            if offset.is_none() {
                data.resize(data.len().next_multiple_of(32), 0);
            }
        }
        // The last tensor ends the file.
        data.truncate(self.end());
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(data);
        file
    }

    /// Where the last tensor ends in the data.
    fn end(&self) -> usize {
        let sizes =
            self.tensors.iter().filter(|tensor| tensor.offset.is_none()).map(|tensor| tensor.data.len());
        let mut end = 0usize;
        for size in sizes {
            end = end.next_multiple_of(32) + size;
        }
        end
    }
}

/// The format of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quant {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

impl Quant {
    pub(crate) const ALL: [Quant; 11] = [
        Quant::F32,
        Quant::F16,
        Quant::BF16,
        Quant::Q4_0,
        Quant::Q4_1,
        Quant::Q5_0,
        Quant::Q5_1,
        Quant::Q8_0,
        Quant::Q4K,
        Quant::Q5K,
        Quant::Q6K,
    ];

    /// The number of the format, the elements of a block, and the places of its floats of 16 bits with the sizes that they have.
    fn of(self) -> (u32, usize, usize, &'static [(usize, f32)]) {
        match self {
            Quant::F32 => (0, 1, 4, &[]),
            Quant::F16 => (1, 1, 2, &[]),
            Quant::BF16 => (30, 1, 2, &[]),
            Quant::Q4_0 => (2, 32, 18, &[(0, 0.02)]),
            Quant::Q4_1 => (3, 32, 20, &[(0, 0.02), (2, -0.15)]),
            Quant::Q5_0 => (6, 32, 22, &[(0, 0.01)]),
            Quant::Q5_1 => (7, 32, 24, &[(0, 0.01), (2, -0.15)]),
            Quant::Q8_0 => (8, 32, 34, &[(0, 0.001)]),
            Quant::Q4K => (12, 256, 144, &[(0, 0.0005), (2, 0.004)]),
            Quant::Q5K => (13, 256, 176, &[(0, 0.0003), (2, 0.004)]),
            Quant::Q6K => (14, 256, 210, &[(208, 0.0001)]),
        }
    }
}

/// Numbers that look random, the same in each run.
#[derive(Debug)]
pub(crate) struct Drawn(u64);

impl Drawn {
    pub(crate) fn new(seed: u64) -> Drawn {
        Drawn(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u8
    }

    /// A number between -1 and 1.
    pub(crate) fn unit(&mut self) -> f32 {
        let number = u16::from_le_bytes([self.byte(), self.byte()]);
        f32::from(number) / 32768.0 - 1.0
    }
}

/// A model of few layers with drawn weights.
#[derive(Debug, Clone)]
pub(crate) struct Tiny {
    pub(crate) architecture: &'static str,
    pub(crate) quant: Quant,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) groups: usize,
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) tied: bool,
    pub(crate) biases: bool,
    pub(crate) head_norms: bool,
    pub(crate) window: Option<u32>,
    /// The number near which the weights of the last norm are drawn.
    pub(crate) norm: f32,
}

pub(crate) const VOCABULARY: usize = 128;
pub(crate) const CONTEXT: usize = 200;
pub(crate) const BASE: f32 = 5000.0;
pub(crate) const EPSILON: f32 = 1e-5;

impl Default for Tiny {
    fn default() -> Tiny {
        Tiny {
            architecture: "llama",
            quant: Quant::Q4_1,
            width: 64,
            heads: 4,
            groups: 2,
            hidden: 96,
            layers: 2,
            tied: true,
            biases: false,
            head_norms: false,
            window: None,
            norm: 1.0,
        }
    }
}

impl Tiny {
    /// A model with these matrices, whose rows are long enough for their blocks.
    pub(crate) fn of(quant: Quant) -> Tiny {
        match quant.of().1 {
            256 => Tiny { quant, width: 256, hidden: 256, layers: 1, ..Tiny::default() },
            _ => Tiny { quant, ..Tiny::default() },
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.width / self.heads
    }

    /// The tokens: an end, a space, an end of a line, characters, halves of `é`, a pair, the marks of messages, and others.
    fn words() -> Vec<String> {
        let mut words: Vec<String> = ["<|endoftext|>", "Ġ", "Ċ"].map(str::to_owned).into();
        words.extend((33..127u8).map(|c| char::from(c).to_string()));
        words.extend(["Ã", "©", "th", "<|im_start|>", "<|im_end|>"].map(str::to_owned));
        words.extend((words.len()..VOCABULARY).map(|i| format!("word{i}")));
        words
    }

    fn matrix(&self, writer: &mut GgufWriter, name: &str, [rows, inner]: [usize; 2], drawn: &mut Drawn) {
        let (ty, block, size, floats) = self.quant.of();
        let count = rows * inner / block;
        let mut data = Vec::with_capacity(count * size);
        for _ in 0..count {
            match self.quant {
                Quant::F32 => data.extend((drawn.unit() * 0.2).to_le_bytes()),
                Quant::F16 => data.extend(f16::from_f32(drawn.unit() * 0.2).to_le_bytes()),
                Quant::BF16 => data.extend(bb::bf16::from_f32(drawn.unit() * 0.2).to_le_bytes()),
                _ => {
                    let mut bytes: Vec<u8> = (0..size).map(|_| drawn.byte()).collect();
                    for &(at, scale) in floats {
                        let x = f16::from_f32(scale * (1.0 + drawn.unit() * 0.3));
                        bytes.splice(at..at + 2, x.to_le_bytes());
                    }
                    data.extend(bytes);
                }
            }
        }
        writer.tensor(name, &[inner as u64, rows as u64], ty, data);
    }

    fn vector(writer: &mut GgufWriter, name: &str, length: usize, near: f32, drawn: &mut Drawn) {
        let data = (0..length).flat_map(|_| (near + drawn.unit() * 0.2).to_le_bytes()).collect();
        writer.tensor(name, &[length as u64], 0, data);
    }

    pub(crate) fn writer(&self) -> GgufWriter {
        let mut writer = GgufWriter::default();
        let kind = self.architecture;
        writer.key("general.architecture", Meta::Text(kind.to_owned()));
        for (key, value) in [
            ("block_count", self.layers),
            ("context_length", CONTEXT),
            ("embedding_length", self.width),
            ("feed_forward_length", self.hidden),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.groups),
            ("rope.dimension_count", self.size()),
        ] {
            writer.key(&format!("{kind}.{key}"), Meta::U32(value as u32));
        }
        if let Some(window) = self.window {
            writer.key(&format!("{kind}.attention.sliding_window"), Meta::U32(window));
        }
        writer.key(&format!("{kind}.rope.freq_base"), Meta::F32(BASE));
        writer.key(&format!("{kind}.attention.layer_norm_rms_epsilon"), Meta::F32(EPSILON));
        let words = Tiny::words();
        let types = words.iter().map(|word| if word.starts_with("<|") { 3 } else { 1 }).collect();
        writer.key("tokenizer.ggml.model", Meta::Text("gpt2".to_owned()));
        writer.key("tokenizer.ggml.pre", Meta::Text("smollm".to_owned()));
        writer.key("tokenizer.ggml.tokens", Meta::Texts(words));
        writer.key("tokenizer.ggml.token_type", Meta::I32s(types));
        writer.key("tokenizer.ggml.merges", Meta::Texts(vec!["t h".to_owned()]));
        writer.key("tokenizer.ggml.eos_token_id", Meta::U32(0));
        let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
            {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        writer.key("tokenizer.chat_template", Meta::Text(template.to_owned()));

        let mut drawn = Drawn::new(7);
        let (width, size) = (self.width, self.size());
        let (queries, keys) = (self.heads * size, self.groups * size);
        self.matrix(&mut writer, "token_embd.weight", [VOCABULARY, width], &mut drawn);
        for layer in 0..self.layers {
            let name = |what: &str| format!("blk.{layer}.{what}");
            for what in ["attn_norm.weight", "ffn_norm.weight"] {
                Tiny::vector(&mut writer, &name(what), width, 1.0, &mut drawn);
            }
            for (what, rows) in [("attn_q", queries), ("attn_k", keys), ("attn_v", keys)] {
                self.matrix(&mut writer, &name(&format!("{what}.weight")), [rows, width], &mut drawn);
                if self.biases {
                    Tiny::vector(&mut writer, &name(&format!("{what}.bias")), rows, 0.0, &mut drawn);
                }
            }
            if self.head_norms {
                for what in ["attn_q_norm.weight", "attn_k_norm.weight"] {
                    Tiny::vector(&mut writer, &name(what), size, 1.0, &mut drawn);
                }
            }
            self.matrix(&mut writer, &name("attn_output.weight"), [width, queries], &mut drawn);
            self.matrix(&mut writer, &name("ffn_gate.weight"), [self.hidden, width], &mut drawn);
            self.matrix(&mut writer, &name("ffn_up.weight"), [self.hidden, width], &mut drawn);
            self.matrix(&mut writer, &name("ffn_down.weight"), [width, self.hidden], &mut drawn);
        }
        Tiny::vector(&mut writer, "output_norm.weight", width, self.norm, &mut drawn);
        if !self.tied {
            self.matrix(&mut writer, "output.weight", [VOCABULARY, width], &mut drawn);
        }
        writer
    }
}
