//! Pages of the KV cache: 256 positions of one layer, aligned to position 0, which is also the attention's chunk.

mod element;

use crate::isa::Isa;
use crate::pool::Pool;
use crate::shared::Shared;
pub use element::quantize_q8_0;
pub(crate) use element::{BLOCK, Element};

/// Positions in a page, and in a chunk of rule 5.
pub const PAGE_POSITIONS: usize = 256;

/// Keys in a tile: the lanes of a vector.
pub const TILE_KEYS: usize = 16;

/// How a cache holds its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvType {
    /// Four bytes, exact.
    F32,
    /// Two bytes, rounded to nearest even.
    F16,
    /// One byte, and an f16 scale for each block of 32 along head_dim, as in ggml's format of that name.
    Q8_0,
}

impl KvType {
    /// Every one of them.
    pub const ALL: [KvType; 3] = [KvType::F16, KvType::Q8_0, KvType::F32];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// Values along head_dim that are held together: head_dim must be a multiple.
    pub fn block(self) -> usize {
        match self {
            KvType::F32 | KvType::F16 => 1,
            KvType::Q8_0 => BLOCK,
        }
    }
}

/// What one position of one layer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Heads that own keys and values.
    pub n_kv_heads: usize,
    /// Length of a key, and of a value.
    pub head_dim: usize,
    /// How they are held.
    pub ty: KvType,
}

impl KvShape {
    /// A value's length in memory: whole vectors.
    pub(crate) fn value_stride(self) -> usize {
        self.head_dim.next_multiple_of(16)
    }

    /// Scales of a key, and of a value.
    pub(crate) fn scales(self) -> usize {
        match self.ty {
            KvType::F32 | KvType::F16 => 0,
            KvType::Q8_0 => self.head_dim / BLOCK,
        }
    }

    /// Bytes of one page.
    pub fn page_bytes(self) -> usize {
        let bytes = match self.ty {
            KvType::F32 => 4,
            KvType::F16 => 2,
            KvType::Q8_0 => 1,
        };
        let position = (self.head_dim + self.value_stride()) * bytes + 2 * self.scales() * size_of::<u16>();
        self.n_kv_heads * PAGE_POSITIONS * position
    }
}

/// 256 positions: keys as [kv head][tile of 16][head_dim][16 lanes], values as [kv head][256][head_dim, padded to 16].
/// Scales, where there are any: keys' as [kv head][tile of 16][head_dim / 32][16 lanes], values' as
/// [kv head][head_dim / 32][256].
#[derive(Clone)]
pub struct KvPage {
    shape: KvShape,
    planes: Planes,
}

#[derive(Clone)]
enum Planes {
    F32(Plane<f32>),
    F16(Plane<u16>),
    Q8_0(Plane<i8>),
}

#[derive(Clone)]
struct Plane<E> {
    keys: Vec<E>,
    key_scales: Vec<u16>,
    values: Vec<E>,
    value_scales: Vec<u16>,
}

/// The keys of a head from some tile on.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a, E> {
    /// [tile][head_dim][16]
    pub(crate) codes: &'a [[E; TILE_KEYS]],
    /// [tile][head_dim / 32][16]
    pub(crate) scales: &'a [[u16; TILE_KEYS]],
}

/// Columns of the values of a head, sixteen wide.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a, E> {
    /// [256][columns]
    pub(crate) codes: &'a [[E; 16]],
    /// Widened, [head_dim / 32][256]
    pub(crate) scales: &'a [[f32; PAGE_POSITIONS]],
    /// The first column there is.
    pub(crate) first: usize,
    pub(crate) columns: usize,
}

impl<E: Element> Values<'_, E> {
    /// A column of a key's values, widened.
    #[inline(always)]
    pub(crate) fn load<I: Isa>(&self, isa: I, key: usize, column: usize) -> I::F {
        let scale = if E::SCALED { self.scales[column * 16 / BLOCK][key] } else { 0.0 };
        E::load(isa, &self.codes[key * self.columns + column - self.first], isa.splat(scale))
    }
}

/// [`Keys`] of some type.
#[derive(Clone, Copy)]
pub(crate) enum KeysOf<'a> {
    F32(Keys<'a, f32>),
    F16(Keys<'a, u16>),
    Q8_0(Keys<'a, i8>),
}

/// [`Values`] of some type.
#[derive(Clone, Copy)]
pub(crate) enum ValuesOf<'a> {
    F32(Values<'a, f32>),
    F16(Values<'a, u16>),
    Q8_0(Values<'a, i8>),
}

impl<E: Element> Plane<E> {
    fn new(shape: KvShape) -> Self {
        let n = shape.n_kv_heads * PAGE_POSITIONS;
        Plane {
            keys: vec![E::default(); n * shape.head_dim],
            key_scales: vec![0; n * shape.scales()],
            values: vec![E::default(); n * shape.value_stride()],
            value_scales: vec![0; n * shape.scales()],
        }
    }

    /// The keys of a head from a tile on.
    #[inline(always)]
    fn keys(&self, shape: KvShape, head: usize, tile: usize) -> Keys<'_, E> {
        let from = |per_key: usize| (head * PAGE_POSITIONS + tile * TILE_KEYS) * per_key;
        let to = |per_key: usize| (head + 1) * PAGE_POSITIONS * per_key;
        let (codes, scales) = (shape.head_dim, shape.scales());
        Keys {
            codes: self.keys[from(codes)..to(codes)].as_chunks().0,
            scales: self.key_scales[from(scales)..to(scales)].as_chunks().0,
        }
    }

    /// The values of a head, with their scales widened.
    #[inline(always)]
    fn values<'a>(
        &'a self,
        shape: KvShape,
        head: usize,
        scales: &'a [[f32; PAGE_POSITIONS]],
    ) -> Values<'a, E> {
        let n = PAGE_POSITIONS * shape.value_stride();
        let codes = self.values[head * n..(head + 1) * n].as_chunks().0;
        Values { codes, scales, first: 0, columns: shape.value_stride() / 16 }
    }

    /// The scales of the values of a head, [head_dim / 32][256].
    #[inline(always)]
    fn value_scales(&self, shape: KvShape, head: usize) -> &[[u16; 16]] {
        let n = PAGE_POSITIONS * shape.scales();
        self.value_scales[head * n..(head + 1) * n].as_chunks().0
    }

    fn store(&mut self, pool: &Pool, shape: KvShape, slot: usize, k: &[f32], v: &[f32]) {
        let (n_heads, dim, stride, n_scales) =
            (shape.n_kv_heads, shape.head_dim, shape.value_stride(), shape.scales());
        let (keys, key_scales) = (Shared::new(&mut self.keys), Shared::new(&mut self.key_scales));
        let (values, value_scales) = (Shared::new(&mut self.values), Shared::new(&mut self.value_scales));
        pool.run(n_heads, &|_, head| {
            let part =
                |per_position: usize| (head * PAGE_POSITIONS * per_position, PAGE_POSITIONS * per_position);
            let (codes, padded, scales) = (part(dim), part(stride), part(n_scales));
            // SAFETY: each head's part is taken by one chunk.
            let (keys, key_scales, values, value_scales) = unsafe {
                (
                    keys.slice(codes.0, codes.1).as_chunks_mut::<TILE_KEYS>().0,
                    key_scales.slice(scales.0, scales.1).as_chunks_mut::<TILE_KEYS>().0,
                    values.slice(padded.0, padded.1),
                    value_scales.slice(scales.0, scales.1),
                )
            };
            let rows = k.chunks_exact(n_heads * dim).zip(v.chunks_exact(n_heads * dim));
            let mut codes = [E::default(); BLOCK];
            for (slot, (k, v)) in (slot..).zip(rows) {
                let (tile, lane) = (slot / TILE_KEYS, slot % TILE_KEYS);
                for (block, x) in k[head * dim..(head + 1) * dim].chunks(BLOCK).enumerate() {
                    let scale = E::narrow(x, &mut codes);
                    let lanes = &mut keys[tile * dim + block * BLOCK..][..x.len()];
                    for (lanes, code) in lanes.iter_mut().zip(&codes) {
                        lanes[lane] = *code;
                    }
                    if E::SCALED {
                        key_scales[tile * n_scales + block][lane] = scale;
                    }
                }
                for (block, x) in v[head * dim..(head + 1) * dim].chunks(BLOCK).enumerate() {
                    let scale = E::narrow(x, &mut codes);
                    values[slot * stride + block * BLOCK..][..x.len()].copy_from_slice(&codes[..x.len()]);
                    if E::SCALED {
                        value_scales[block * PAGE_POSITIONS + slot] = scale;
                    }
                }
            }
        });
    }
}

impl KvPage {
    /// An empty page.
    ///
    /// # Panics
    /// Where head_dim is no multiple of the type's [block](KvType::block): whoever chooses the type refuses that.
    pub fn new(shape: KvShape) -> KvPage {
        let (name, block) = (shape.ty.name(), shape.ty.block());
        assert!(
            shape.head_dim.is_multiple_of(block),
            "{name} holds blocks of {block}, not {}",
            shape.head_dim
        );
        let planes = match shape.ty {
            KvType::F32 => Planes::F32(Plane::new(shape)),
            KvType::F16 => Planes::F16(Plane::new(shape)),
            KvType::Q8_0 => Planes::Q8_0(Plane::new(shape)),
        };
        KvPage { shape, planes }
    }

    /// What it holds.
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// The keys of a head from a tile on.
    #[inline(always)]
    pub(crate) fn keys(&self, head: usize, tile: usize) -> KeysOf<'_> {
        match &self.planes {
            Planes::F32(plane) => KeysOf::F32(plane.keys(self.shape, head, tile)),
            Planes::F16(plane) => KeysOf::F16(plane.keys(self.shape, head, tile)),
            Planes::Q8_0(plane) => KeysOf::Q8_0(plane.keys(self.shape, head, tile)),
        }
    }

    /// The values of a head, with their scales widened.
    #[inline(always)]
    pub(crate) fn values<'a>(&'a self, head: usize, scales: &'a [[f32; PAGE_POSITIONS]]) -> ValuesOf<'a> {
        match &self.planes {
            Planes::F32(plane) => ValuesOf::F32(plane.values(self.shape, head, scales)),
            Planes::F16(plane) => ValuesOf::F16(plane.values(self.shape, head, scales)),
            Planes::Q8_0(plane) => ValuesOf::Q8_0(plane.values(self.shape, head, scales)),
        }
    }

    /// The scales of a head's values, [head_dim / 32][256]; none where values have none.
    #[inline(always)]
    pub(crate) fn value_scales(&self, head: usize) -> &[[u16; 16]] {
        match &self.planes {
            Planes::F32(plane) => plane.value_scales(self.shape, head),
            Planes::F16(plane) => plane.value_scales(self.shape, head),
            Planes::Q8_0(plane) => plane.value_scales(self.shape, head),
        }
    }

    /// Writes successive positions from `slot` on: k and v = [positions, n_kv_heads, head_dim].
    pub fn store(&mut self, pool: &Pool, slot: usize, k: &[f32], v: &[f32]) {
        assert!(
            slot + k.len() / (self.shape.n_kv_heads * self.shape.head_dim) <= PAGE_POSITIONS,
            "positions beyond the page"
        );
        match &mut self.planes {
            Planes::F32(plane) => plane.store(pool, self.shape, slot, k, v),
            Planes::F16(plane) => plane.store(pool, self.shape, slot, k, v),
            Planes::Q8_0(plane) => plane.store(pool, self.shape, slot, k, v),
        }
    }
}
