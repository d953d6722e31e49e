"""A KV cache with spare room. Transformers' ``DynamicCache`` copies its whole contents for every token."""

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

ROOM = 64  # fewest free columns after a layer moves to a new buffer


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values (rows × heads × columns × width) are views of buffers that are a quarter longer than needed."""

    _buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        held = self.get_seq_length()
        width = held + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < width:
            self._buffers = (
                self._moved(self.keys, held, width, key_states),  # type: ignore[has-type]
                self._moved(self.values, held, width, value_states),  # type: ignore[has-type]
            )
        keys, values = self._buffers
        keys[:, :, held:width] = key_states
        values[:, :, held:width] = value_states
        self.keys, self.values = keys[:, :, :width], values[:, :, :width]
        return self.keys, self.values

    def _moved(self, old: torch.Tensor, held: int, width: int, like: torch.Tensor) -> torch.Tensor:
        rows, heads, _, size = like.shape
        new = like.new_empty(rows, heads, width + max(width // 4, ROOM), size)
        if held:
            new[:, :, :held] = old
        return new

    def select(self, rows: torch.Tensor, columns: torch.Tensor | None = None) -> None:
        """Keep ``rows``, each as often as it is named, in this order. Of each row keep ``columns`` (rows × kept) or all columns."""
        self._buffers = None
        for name in ("keys", "values"):
            kept = getattr(self, name)[rows]
            if columns is not None:
                kept = kept.gather(2, columns[:, None, :, None].expand(-1, kept.shape[1], -1, kept.shape[3]))
            setattr(self, name, kept)


def growing_cache() -> Any:
    """An empty cache of growing layers."""
    return Cache(layer_class_to_replicate=GrowingLayer)
