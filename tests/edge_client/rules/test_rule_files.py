"""Rules in the configuration: what they cannot be is refused with file, line, key and the way out."""

import pytest

from edge_client.config import load_config
from edge_client.errors import ConfigError

HEAD = '[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "base"\n[[rules]]\nname = "first"\nmqtt = "a/b"\n'


def read(folder, text):
    path = folder / "edge.toml"
    path.write_text(f"{HEAD}[[rules]]\n{text}\n")
    return load_config(path)


def test_rules_are_read_in_their_order_and_secrets_are_not_shown(tmp_path):
    config = read(
        tmp_path,
        'name = "bell"\nlabels = ["doorbell"]\nwebhook = "https://h.example/secret?x=1"\nwebhook_secret = "s3cret"\n'
        'notify = ["ntfy://s3cret"]',
    )
    assert [rule.name for rule in config.rules] == ["first", "bell"]
    assert config.rules[1].labels == ("doorbell",)
    assert "s3cret" not in repr(config)
    assert "secret?" not in repr(config)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('name = "a"', 10, "does nothing: it needs mqtt, webhook, notify or program"),
        ('name = "first"\nmqtt = "x"', 10, "there is a rule 'first' already"),
        ('name = "a"\nmqtt = "x"\nlable = ["b"]', 12, "unknown key 'lable'"),
        ('name = "a"\nmqtt = "a/#"', 11, "is no topic"),
        ('name = "a"\nmqtt = "x"\nhours = ["25:00-26:00"]', 12, 'must be like ["07:00-23:00"]'),
        ('name = "a"\nmqtt = "x"\ntimes = 0', 12, "must be from 1 to 1000"),
        ('name = "a"\nmqtt = "x"\nmessage = "{label.__class__}"', 12, "may name {label}"),
        ('name = "a"\nmqtt = "x"\nmessage = "{label!r:>9999999}"', 12, "may name {label}"),
        ('name = "a"\nmqtt = "x"\nmessage = "{"', 12, "cannot be read"),
        ('name = "a"\nwebhook = "file:///etc/passwd"', 11, "must be like https://host/path"),
        ('name = "a"\nwebhook = "https://h:0/"', 11, "must be like https://host/path"),
        ('name = "a"\nwebhook = "http://h.example/s3cret"', 11, "is plain HTTP, so others can read along"),
        ('name = "a"\nwebhook = "https://h.example/a b"', 11, "must be printable ASCII"),
        ('name = "a"\nmqtt = "x"\nwebhook_secret = "s3cret"', 12, "needs a webhook"),
        ('name = "a"\nnotify = ["s3cret"]', 11, "must be at most 20 addresses of Apprise"),
        ('name = "a"\nprogram = "../../bin/sh"', 11, "must be the name of a file in rules.d"),
        ('name = "a"\nprogram = ".hidden"', 11, "must be the name of a file in rules.d"),
        ('name = "a"\nmqtt = "x"\nlouder_than_db = -20\ntimes = 2', 12, "is of a level alone"),
        ('name = "a"\nmqtt = "x"\nlouder_than_db = -20\nhome = true', 13, "is not for a level"),
        ('name = "a"\nmqtt = "x"\nlabels = "kettle"', 12, "is of the wrong type"),
    ],
)
def test_what_a_rule_cannot_be_is_refused_with_the_line(tmp_path, text, line, told):
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert told in str(refused.value)
    assert f"edge.toml, line {line}:" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_rules_are_sections_and_not_too_many(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text(HEAD.replace("[[rules]]", "[rules]"))
    with pytest.raises(ConfigError, match=r"each rule is a section \[\[rules\]\]"):
        load_config(path)
    with pytest.raises(ConfigError, match="51 rules; at most 50 are possible"):
        read(tmp_path, "\n[[rules]]\n".join(f'name = "{number}"\nmqtt = "x"' for number in range(50)))
