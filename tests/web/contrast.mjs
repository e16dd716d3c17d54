// How well text can be told from what is behind it (WCAG 2.1, 1.4.3), in a page that is shown.

// Runs in the page: the texts whose contrast is below 4.5, or 3 where they are large.
export function faintTexts() {
  const channel = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) =>
      0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  // Any CSS colour as its bytes.
  const pixel = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = pixel(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const text = own ? element.textContent.trim().slice(0, 40) : element.placeholder;
    if (!text || !element.checkVisibility() || element.closest(':disabled')) continue;
    const style = getComputedStyle(element, own ? null : '::placeholder');
    const [light, dark] = [luminance(pixel(style.color)), luminance(behind(element))]
        .sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) faint.push(`${text}: ${ratio.toFixed(2)}`);
  }
  return faint;
}
