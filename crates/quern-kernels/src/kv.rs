//! Pages of the KV cache: 256 positions of one layer, aligned to position 0, which is also the attention's chunk.

use crate::isa::Isa;
use crate::math;
use crate::pool::Pool;
use crate::shared::Shared;

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
}

impl KvType {
    /// Every one of them.
    pub const ALL: [KvType; 2] = [KvType::F16, KvType::F32];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
        }
    }

    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            KvType::F32 => 4,
            KvType::F16 => 2,
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

    /// Bytes of one page.
    pub fn page_bytes(self) -> usize {
        self.n_kv_heads * PAGE_POSITIONS * (self.head_dim + self.value_stride()) * self.ty.bytes()
    }
}

/// 256 positions: keys as [kv head][tile of 16][head_dim][16 lanes], values as [kv head][256][head_dim, padded to 16].
#[derive(Clone)]
pub struct KvPage {
    shape: KvShape,
    pub(crate) planes: Planes,
}

#[derive(Clone)]
pub(crate) enum Planes {
    F32(Plane<f32>),
    F16(Plane<u16>),
}

#[derive(Clone)]
pub(crate) struct Plane<E> {
    keys: Vec<E>,
    values: Vec<E>,
}

/// An element type of a cache.
pub(crate) trait KvElement: Copy + Default + Send + Sync {
    /// Takes a float, rounded.
    fn narrow(x: f32) -> Self;
    /// Sixteen elements, widened exactly.
    fn load<I: Isa>(isa: I, p: &[Self; 16]) -> I::F;
}

impl KvElement for f32 {
    #[inline(always)]
    fn narrow(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn load<I: Isa>(isa: I, p: &[f32; 16]) -> I::F {
        isa.load(p)
    }
}

impl KvElement for u16 {
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        math::f32_to_f16(x)
    }
    #[inline(always)]
    fn load<I: Isa>(isa: I, p: &[u16; 16]) -> I::F {
        isa.load_f16(p)
    }
}

impl<E: KvElement> Plane<E> {
    fn new(shape: KvShape) -> Self {
        let n = shape.n_kv_heads * PAGE_POSITIONS;
        Plane {
            keys: vec![E::default(); n * shape.head_dim],
            values: vec![E::default(); n * shape.value_stride()],
        }
    }

    /// The keys of a head, [tile][head_dim][16].
    #[inline(always)]
    pub(crate) fn keys(&self, shape: KvShape, head: usize) -> &[[E; 16]] {
        let n = PAGE_POSITIONS * shape.head_dim;
        self.keys[head * n..(head + 1) * n].as_chunks().0
    }

    /// The values of a head, [256][value_stride].
    #[inline(always)]
    pub(crate) fn values(&self, shape: KvShape, head: usize) -> &[E] {
        let n = PAGE_POSITIONS * shape.value_stride();
        &self.values[head * n..(head + 1) * n]
    }

    fn store(&mut self, pool: &Pool, shape: KvShape, slot: usize, k: &[f32], v: &[f32]) {
        let (n_heads, dim, stride) = (shape.n_kv_heads, shape.head_dim, shape.value_stride());
        let (keys, values) = (Shared::new(&mut self.keys), Shared::new(&mut self.values));
        pool.run(n_heads, &|_, head| {
            // SAFETY: each head's part is taken by one chunk.
            let (keys, values) = unsafe {
                (
                    keys.slice(head * PAGE_POSITIONS * dim, PAGE_POSITIONS * dim),
                    values.slice(head * PAGE_POSITIONS * stride, PAGE_POSITIONS * stride),
                )
            };
            let rows = k.chunks_exact(n_heads * dim).zip(v.chunks_exact(n_heads * dim));
            for (slot, (k, v)) in (slot..).zip(rows) {
                let (tile, lane) = (slot / TILE_KEYS, slot % TILE_KEYS);
                let tile =
                    keys[tile * dim * TILE_KEYS..(tile + 1) * dim * TILE_KEYS].as_chunks_mut::<TILE_KEYS>().0;
                for (lanes, x) in tile.iter_mut().zip(&k[head * dim..]) {
                    lanes[lane] = E::narrow(*x);
                }
                for (out, x) in values[slot * stride..][..dim].iter_mut().zip(&v[head * dim..]) {
                    *out = E::narrow(*x);
                }
            }
        });
    }
}

impl KvPage {
    /// An empty page.
    pub fn new(shape: KvShape) -> KvPage {
        let planes = match shape.ty {
            KvType::F32 => Planes::F32(Plane::new(shape)),
            KvType::F16 => Planes::F16(Plane::new(shape)),
        };
        KvPage { shape, planes }
    }

    /// What it holds.
    pub fn shape(&self) -> KvShape {
        self.shape
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
        }
    }
}
