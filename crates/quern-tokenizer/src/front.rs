//! What happens to a stretch of text before a vocabulary sees it: rewriting, then cutting into words.

use crate::cut::{Cut, cut};
use crate::normalize::{Normalizer, normalize};

/// The steps, in order.
#[derive(Debug, Default)]
pub(crate) struct Front {
    pub(crate) normalizers: Vec<Normalizer>,
    pub(crate) cuts: Vec<Cut>,
}

/// Memory that is reused from text to text.
#[derive(Debug, Default)]
pub(crate) struct FrontScratch {
    text: String,
    spare: String,
}

impl Front {
    /// Emits the words of `text`.
    pub(crate) fn words(&self, text: &str, scratch: &mut FrontScratch, emit: &mut dyn FnMut(&str)) {
        scratch.text.clear();
        scratch.text.push_str(text);
        normalize(&self.normalizers, &mut scratch.text, &mut scratch.spare);
        cut(&self.cuts, &scratch.text, emit);
    }
}
