"""Writes small pictures of all formats and forms that `ImageDecoder` reads: python picture.py picture (with Pillow and NumPy)."""
import io, os, sys, struct
import numpy as np
from PIL import Image
from pathlib import Path
out = Path(sys.argv[1])
def put(fmt, name, data):
    d = out/fmt; d.mkdir(parents=True, exist_ok=True); (d/name).write_bytes(data)
y, x = np.mgrid[0:9, 0:11]
rgb = np.stack([x*20, y*25, (x*y*3)%256], -1).astype(np.uint8)
def im(mode): return Image.fromarray(rgb).convert(mode)
def save(fmt, name, image, pil, **kw):
    b = io.BytesIO(); image.save(b, pil, **kw); put(fmt, name, b.getvalue())
rgba = im('RGB').copy(); rgba.putalpha(im('L'))
l16 = Image.fromarray((x*5000).astype(np.uint16))
for m in ['RGB','L','P','1','RGBA']:
    i = rgba if m=='RGBA' else im(m)
    save('bmp', f'{m}', i, 'BMP'); save('png', m, i, 'PNG'); save('tiff', m, i, 'TIFF')
    if m in ('RGB','L','1'): save('pnm', m, i, 'PPM')
save('png','L16',l16,'PNG'); save('tiff','L16',l16,'TIFF'); save('pnm','L16',l16,'PPM')
for m in ['RGB','L','CMYK']:
    save('jpeg', m, im(m), 'JPEG', quality=50); save('jpeg', m+'-progressive', im(m), 'JPEG', progressive=True, quality=50)
save('jpeg','422',im('RGB'),'JPEG',subsampling=1); save('jpeg','restart',im('RGB'),'JPEG',restart_marker_blocks=1)
for c in ['tiff_lzw','tiff_adobe_deflate','packbits','jpeg']:
    save('tiff', c, im('RGB'), 'TIFF', compression=c)
save('tiff','predictor',im('RGB'),'TIFF',compression='tiff_lzw',tiffinfo={317:2})
save('tiff','F',im('F'),'TIFF'); save('tiff','F-predictor',im('F'),'TIFF',compression='tiff_lzw',tiffinfo={317:3})
for c in ['group3','group4','tiff_ccitt']:
    save('tiff',c,im('1'),'TIFF',compression=c); save('tiff',c+'-strips',im('1'),'TIFF',compression=c,tiffinfo={278:2,262:0})
for o in [1,4,5]: save('tiff',f'group3-{o}',im('1'),'TIFF',compression='group3',tiffinfo={292:o,266:2})
for m in ['LA','PA','CMYK','YCbCr','I']: save('tiff',m,im(m),'TIFF')
save('tiff','P-lzw',im('P'),'TIFF',compression='tiff_lzw'); save('tiff','zstd',im('RGB'),'TIFF',compression='zstd'); save('tiff','big',im('RGB'),'TIFF',big_tiff=True)
for o in [3,6]: save('tiff',f'turned-{o}',im('RGB'),'TIFF',tiffinfo={274:o})
save('webp','lossy',im('RGB'),'WEBP',quality=40); save('webp','lossless',im('RGB'),'WEBP',lossless=True); save('webp','alpha',rgba,'WEBP',quality=40)
save('webp','animation',im('RGB'),'WEBP',save_all=True,append_images=[im('L').convert('RGB')],duration=10)
for n,kw in {'default':{}, 'tiles':dict(tile_size=(4,4)), 'precincts':dict(precinct_size=(4,4),codeblock_size=(4,4)), 'layers':dict(quality_mode='rates',quality_layers=[20,10,1]), 'lossy':dict(irreversible=True), 'rpcl':dict(progression='RPCL'), 'cprl':dict(progression='CPRL')}.items():
    save('jpeg2000', n, im('RGB'), 'JPEG2000', **kw)
save('jpeg2000','L',im('L'),'JPEG2000'); save('jpeg2000','RGBA',rgba,'JPEG2000')
save('jpeg2000','codestream',im('RGB'),'JPEG2000', no_jp2=True)
# RLE, by hand: a bitmap of 8 bits with runs, a delta, a line of its own and an end.
def rle(bits, comp, code, w=8, h=4):
    pal = b''.join(bytes([i*16%256]*3+[0]) for i in range(16))
    head = struct.pack('<IiiHHIIiiII',40,w,h,1,bits,comp,len(code),0,0,16,16)
    off = 14+len(head)+len(pal)
    return b'BM'+struct.pack('<IHHI',off+len(code),0,0,off)+head+pal+code
put('bmp','rle8',rle(8,1,bytes([8,3, 0,0, 0,3,1,2,3,0, 5,4, 0,0, 0,2,1,1, 2,7, 0,1])))
put('bmp','rle4',rle(4,2,bytes([8,0x12, 0,0, 0,4,0x12,0x34, 4,5, 0,0, 0,2,1,1, 2,7, 0,1])))
put('pnm','P1',b'P1\n3 2\n1 0 1\n0 1 0\n'); put('pnm','P2',b'P2\n3 2\n9\n1 2 3\n4 5 6\n'); put('pnm','P3',b'P3 1 1 255 1 2 3 '); 
put('pnm','P7',b'P7\nWIDTH 2\nHEIGHT 1\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n'+bytes(6))
