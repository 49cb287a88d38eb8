//! What happens to a stretch of text before a vocabulary sees it: rewriting, then cutting into words.

use crate::cut::{Cut, cut};
use crate::matcher::{Automaton, Fragment};
use crate::normalize::{Normalizer, normalize};

/// The steps, in order.
#[derive(Debug, Default)]
pub(crate) struct Front {
    pub(crate) normalizers: Vec<Normalizer>,
    /// Tokens that are looked for in rewritten text. None of them is a mark.
    pub(crate) added: Option<Automaton>,
    pub(crate) cuts: Vec<Cut>,
}

/// Memory that is reused from text to text.
#[derive(Debug, Default)]
pub(crate) struct FrontScratch {
    text: String,
    spare: String,
}

impl Front {
    /// Emits the words of `text`, and the tokens found in it. `first` says that the whole text begins here.
    pub(crate) fn words(
        &self,
        text: &str,
        first: bool,
        scratch: &mut FrontScratch,
        emit: &mut dyn FnMut(Fragment<'_>),
    ) {
        let FrontScratch { text: normal, spare } = scratch;
        normal.clear();
        normal.push_str(text);
        normalize(&self.normalizers, normal, spare);
        let words = |text: &str, first: bool, emit: &mut dyn FnMut(Fragment<'_>)| {
            cut(&self.cuts, text, first, &mut |word| emit(Fragment::Text(word)));
        };
        match &self.added {
            None => words(normal, first, emit),
            Some(added) => {
                let mut first = first;
                added.cut(normal, 0..normal.len(), &mut |fragment| {
                    match fragment {
                        Fragment::Text(text) => words(text, first, emit),
                        token => emit(token),
                    }
                    first = false;
                });
            }
        }
    }
}
