"""Embeddings are computed once, kept privately, and forgotten with the clips that they are of."""

import numpy as np
import pytest

from edge_client.clips.embedding_cache import EmbeddingCache, clip_key, forget_clips, is_clip


def never():
    pytest.fail("computed again")


def test_what_was_computed_once_is_read_from_a_private_file(tmp_path):
    path = tmp_path / "embeddings"
    first = EmbeddingCache(path, "a recipe")
    first.get("x", lambda: np.arange(6.0).reshape(2, 3))
    first.get("gone", lambda: np.zeros((1, 3)))
    first.save()
    assert path.stat().st_mode & 0o777 == 0o600
    second = EmbeddingCache(path, "a recipe")
    assert second.get("x", never).tolist() == [[0, 1, 2], [3, 4, 5]]
    second.save()  # without what nobody asked for
    with pytest.raises(pytest.fail.Exception):
        EmbeddingCache(path, "a recipe").get("gone", never)
    assert EmbeddingCache(path, "another").get("x", lambda: np.ones((1, 3))).tolist() == [[1, 1, 1]]


def test_embeddings_go_with_their_clips_and_with_them_what_was_made_of_several(tmp_path):
    path, clips = tmp_path / "embeddings", [tmp_path / "a.wav", tmp_path / "b.wav"]
    cache = EmbeddingCache(path, "a recipe")
    for number, clip in enumerate(clips):
        clip.write_bytes(bytes([number]))
        cache.get(clip_key(clip), lambda: np.zeros((1, 3)))
    cache.get("spliced-0", lambda: np.zeros((1, 3)))
    cache.save()
    assert all(map(is_clip, map(clip_key, clips)))
    assert not any(map(is_clip, ("spliced-0", f"length-{clip_key(clips[0])}")))
    forget_clips(path, clips[:1])
    left = EmbeddingCache(path, "a recipe")
    left.get(clip_key(clips[0]), never)
    for key in (clip_key(clips[1]), "spliced-0"):
        with pytest.raises(pytest.fail.Exception):
            left.get(key, never)
    path.write_bytes(b"damaged")
    forget_clips(path, clips)
    assert not path.exists()
    forget_clips(path, clips)
