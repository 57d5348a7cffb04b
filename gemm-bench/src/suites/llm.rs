//! Products of the layers of public language models.
//!
//! A layer multiplies M tokens by its weights, which are stored with the inputs of each output together: A is M x K and
//! row-major, B is K x N and column-major, and D is row-major. N and K follow from the models' published configurations:
//! `hidden` and `intermediate` sizes, heads of queries and of keys and values. Projections with the same input are
//! computed as one product, as inference engines do: q, k and v, and the gate with the up projection.

use super::Size;

/// A projection of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layer {
    model: &'static str,
    name: &'static str,
    /// Outputs.
    n: usize,
    /// Inputs.
    k: usize,
}

/// Tokens: one to a few dozen while text is generated, hundreds and more while a prompt is read.
const TOKENS: [usize; 9] = [1, 8, 16, 32, 64, 128, 512, 2048, 8192];
/// Each layer takes every third of these, with a different first one, so that every number of tokens occurs with all
/// kinds of layers.
const STEP: usize = 3;

const fn layer(model: &'static str, name: &'static str, n: usize, k: usize) -> Layer {
    Layer { model, name, n, k }
}

const LAYERS: [Layer; 24] = [
    // Hidden 4096, intermediate 14336, 32 heads and 8 of keys and values, of 128 each.
    layer("Llama-3 8B", "qkv", 6144, 4096),
    layer("Llama-3 8B", "o", 4096, 4096),
    layer("Llama-3 8B", "gate_up", 28_672, 4096),
    layer("Llama-3 8B", "down", 4096, 14_336),
    // Hidden 8192, intermediate 28672, 64 heads and 8.
    layer("Llama-3 70B", "qkv", 10_240, 8192),
    layer("Llama-3 70B", "o", 8192, 8192),
    layer("Llama-3 70B", "gate_up", 57_344, 8192),
    layer("Llama-3 70B", "down", 8192, 28_672),
    // Hidden 3584, intermediate 18944, 28 heads and 4.
    layer("Qwen2.5 7B", "qkv", 4608, 3584),
    layer("Qwen2.5 7B", "o", 3584, 3584),
    layer("Qwen2.5 7B", "gate_up", 37_888, 3584),
    layer("Qwen2.5 7B", "down", 3584, 18_944),
    // Hidden 5120, intermediate 27648, 40 heads and 8.
    layer("Qwen2.5 32B", "qkv", 7168, 5120),
    layer("Qwen2.5 32B", "o", 5120, 5120),
    layer("Qwen2.5 32B", "gate_up", 55_296, 5120),
    layer("Qwen2.5 32B", "down", 5120, 27_648),
    // An expert of 8: hidden 6144, intermediate 16384. (Those of 8x7B have the shapes of Llama-3 8B.)
    layer("Mixtral 8x22B", "expert gate_up", 32_768, 6144),
    layer("Mixtral 8x22B", "expert down", 6144, 16_384),
    // Hidden 7168, intermediate 2048 of an expert; queries through 1536 to 128 heads of 192, keys and values through 512 to
    // heads of 128 each.
    layer("DeepSeek-V3", "expert gate_up", 4096, 7168),
    layer("DeepSeek-V3", "expert down", 7168, 2048),
    layer("DeepSeek-V3", "q_b", 24_576, 1536),
    layer("DeepSeek-V3", "kv_b", 32_768, 512),
    layer("DeepSeek-V3", "o", 7168, 16_384),
    layer("DeepSeek-V3", "q_a", 1536, 7168),
];

/// Each layer with a third of the token counts.
pub(super) fn sizes() -> Vec<Size> {
    let of = |(index, layer): (usize, &Layer)| {
        let tokens = TOKENS.iter().skip(index % STEP).step_by(STEP);
        let Layer { n, k, .. } = *layer;
        tokens.map(move |&m| Size::of([m, n, k])).collect::<Vec<_>>()
    };
    LAYERS.iter().enumerate().flat_map(of).collect()
}

/// The model and the layer of a product; `None` if it is not one of a layer.
pub(super) fn layer_of(size: Size) -> Option<String> {
    let layer = LAYERS.iter().find(|layer| (layer.n, layer.k) == (size.n, size.k))?;
    (size.batch == 1).then(|| format!("{} {}", layer.model, layer.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LAYERS, TOKENS, layer_of, sizes};

    #[test]
    fn every_layer_and_every_number_of_tokens_is_there() {
        let sizes = sizes();
        assert_eq!(sizes.len(), 3 * LAYERS.len());
        let kinds: BTreeSet<(usize, String)> = sizes
            .iter()
            .map(|size| (size.m, layer_of(*size).unwrap().rsplit_once(' ').unwrap().1.to_string()))
            .collect();
        for tokens in TOKENS {
            for kind in ["qkv", "o", "gate_up", "down"] {
                assert!(kinds.contains(&(tokens, kind.into())), "{tokens} tokens, {kind}");
            }
        }
    }

    #[test]
    fn no_two_layers_have_the_same_extents() {
        let extents: BTreeSet<(usize, usize)> = LAYERS.iter().map(|layer| (layer.n, layer.k)).collect();
        assert_eq!(extents.len(), LAYERS.len());
        assert_eq!(layer_of(super::Size::of([7, 6144, 4096])).as_deref(), Some("Llama-3 8B qkv"));
        assert_eq!(layer_of(super::Size::cube(4095)), None);
    }
}
