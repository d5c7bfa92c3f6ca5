import { splitAtCodePoint, splitAtRange } from '../src/offsets';

const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

describe('splitAtCodePoint', () => {
  it('counts characters, not UTF-16 units', () => {
    const text = 'label = "😀😀😀"\nprint(la';
    expect(text.length).toBe(25);
    expect(Array.from(text).length).toBe(22);
    expect(splitAtCodePoint(text, 22)).toEqual({ prefix: text, suffix: '' });
  });

  it.each([
    ['between two emoji', 'a😀😀b', 2, 'a😀', '😀b'],
    ['inside a flag, which is two characters', '🇩🇪', 1, '🇩', '🇪'],
    ['before a combining accent', 'e\u0301x', 1, 'e', '\u0301x'],
    ['inside CRLF', 'a\r\nb', 2, 'a\r', '\nb'],
    ['at the start', '😀', 0, '', '😀'],
    ['behind the end', '😀', 9, '😀', '']
  ])('splits %s', (_, text, offset, prefix, suffix) => {
    expect(splitAtCodePoint(text, offset)).toEqual({ prefix, suffix });
  });

  it('never makes a lone surrogate, and loses nothing', () => {
    const text = '😀a🇩🇪e\u0301\r\n👩‍👩‍👧';
    for (let offset = 0; offset <= Array.from(text).length; offset++) {
      const { prefix, suffix } = splitAtCodePoint(text, offset);
      expect(prefix + suffix).toBe(text);
      expect(Array.from(prefix).length).toBe(offset);
      expect(loneSurrogate.test(prefix) || loneSurrogate.test(suffix)).toBe(false);
    }
  });
});

describe('splitAtRange', () => {
  it('cuts a selection out', () => {
    expect(splitAtRange('abcdef', 2, 4)).toEqual({ prefix: 'ab', suffix: 'ef' });
    expect(splitAtRange('abcdef', 4, 2)).toEqual({ prefix: 'ab', suffix: 'ef' });
  });

  it('moves a border out of a surrogate pair', () => {
    expect(splitAtRange('a😀b', 2, 2)).toEqual({ prefix: 'a', suffix: '😀b' });
    expect(splitAtRange('a😀b', 3, 3)).toEqual({ prefix: 'a😀', suffix: 'b' });
  });
});
